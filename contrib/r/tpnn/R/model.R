read_tpnn <- function(path) {
  text <- paste(readLines(path, encoding = "UTF-8", warn = FALSE), collapse = "\n")
  model <- parse_json(text)
  if (!identical(model$format, "tpnn-model-json")) {
    stop("path: a file of to_json is needed, found ", path, ". Write it with model.to_json(path).")
  }
  if (model$version > 1) {
    stop("path: the file has format version ", model$version,
         ", and this package reads version 1. Install a newer one.")
  }
  model$outputs <- as.character(unlist(model$output_names))
  model$tables <- lapply(model$tables, flat)
  if (!is.null(model$remainder)) {
    model$remainder$tables <- lapply(model$remainder$tables, flat)
    model$remainder$trees <- flat_trees(model$remainder$trees)
  }
  structure(model, class = "tpnn")
}

flat <- function(nested) as.numeric(unlist(nested, use.names = FALSE))

flat_trees <- function(trees) {
  n_outputs <- length(trees$values[[1]])
  children <- matrix(flat(trees$children), ncol = 2, byrow = TRUE)
  list(features = trees$features, asked = flat(trees$asked),
       right = as.logical(unlist(trees$right)), roots = flat(trees$roots),
       questions = flat(trees$questions), children = children,
       values = matrix(flat(trees$values), ncol = n_outputs, byrow = TRUE))
}

print.tpnn <- function(x, ...) {
  cat("tpnn model of ", length(x$components), " components",
      if (!is.null(x$remainder)) " and a remainder", ", link ", x$link, "\n", sep = "")
  invisible(x)
}

feature_names <- function(encoder) {
  if (!is.null(encoder$names)) return(unlist(encoder$names))
  n_features <- length(encoder$features)
  places <- if (is.null(encoder$kept)) seq_len(n_features) - 1 else flat(encoder$kept$places)
  column <- encoder$offset_column
  if (!is.null(column)) places <- places + (places >= column$place)
  paste0("x", places)
}

# Numbers as the model knows them: values, or the number of a level; NaN is missing, Inf unseen.
numbers <- function(feature, x) {
  if (is.factor(x)) x <- as.character(x)
  if (!length(feature$levels)) {
    if (feature$kind == "date" && !is.numeric(x)) x <- as.POSIXct(x, tz = "UTC")
    if (inherits(x, "Date")) x <- 86400 * as.numeric(x)
    if (inherits(x, "difftime")) x <- as.numeric(x, units = "secs")
    if (is.character(x) && !anyNA(as.logical(x[!is.na(x)]))) x <- as.logical(x)
    if (is.character(x)) stop("a column of numbers is needed, found text such as ", x[1], ".")
    x <- as.numeric(x)
    return(ifelse(is.na(x), NaN, x))
  }
  levels <- unlist(feature$levels)
  found <- if (isTRUE(feature$are_text) || is.character(levels)) {
    match(as.character(x), as.character(levels))
  } else {
    match(suppressWarnings(as.numeric(x)), as.numeric(levels))
  }
  ifelse(is.na(x), NaN, ifelse(is.na(found), Inf, found - 1))
}

# Lower node of each value, from zero, and how far it lies towards the next one; NA where f is 0.
located <- function(feature, axis, x) {
  values <- flat(axis$values)
  n_nodes <- length(values)
  node <- rep(NA_real_, length(x))
  share <- numeric(length(x))
  missing <- is.nan(x)
  if (axis$has_missing) node[missing] <- n_nodes
  known <- !missing
  if (length(feature$levels)) {
    unseen <- is.infinite(x)
    if (axis$has_unseen) node[unseen] <- n_nodes - 1
    known <- known & !unseen
    if (!is.null(axis$level_nodes)) {
      node[known] <- flat(axis$level_nodes)[x[known] + 1]
      return(list(node = node, share = share))
    }
  }
  if (n_nodes < 2) {
    if (n_nodes) node[known] <- 0
    return(list(node = node, share = share))
  }
  if (axis$kind == "periodic number") x <- x - floor(x / values[n_nodes]) * values[n_nodes]
  clipped <- pmin(pmax(x[known], values[1]), values[n_nodes])
  lower <- pmin(findInterval(clipped, values), n_nodes - 1)
  node[known] <- lower - 1
  share[known] <- (clipped / 2 - values[lower] / 2) / (values[lower + 1] / 2 - values[lower] / 2)
  list(node = node, share = share)
}

# Values of a component on rows, a matrix with a column for each output.
component_values <- function(encoder, columns, component, table, n_outputs) {
  axes <- encoder$axes[[as.character(length(component))]]
  sizes <- vapply(component + 1, function(j) {
    length(axes[[j]]$values) + as.logical(axes[[j]]$has_missing)
  }, 0)
  places <- lapply(component + 1, function(j) located(encoder$features[[j]], axes[[j]], columns[[j]]))
  n_rows <- length(places[[1]]$node)
  total <- matrix(0, n_rows, n_outputs)
  for (corner in seq_len(2^length(component)) - 1) {
    cell <- numeric(n_rows)
    weight <- rep(1, n_rows)
    for (axis in seq_along(component)) {
      upper <- bitwAnd(corner, bitwShiftL(1L, axis - 1L)) > 0
      share <- places[[axis]]$share
      step <- upper & share > 0
      cell <- cell * sizes[axis] + places[[axis]]$node + step
      weight <- weight * if (upper) share else 1 - share
    }
    for (k in seq_len(n_outputs)) {
      value <- weight * table[cell * n_outputs + k]
      total[, k] <- total[, k] + ifelse(weight == 0, 0, value)
    }
  }
  total[is.na(total)] <- 0 # where a feature has no node
  total
}

tree_values <- function(trees, encoder, columns, n_rows) {
  n_codes <- vapply(trees$features, function(codes) length(codes$masses), 0)
  starts <- c(0, cumsum(n_codes[trees$asked + 1]))
  codes <- list()
  for (j in unique(trees$asked) + 1) codes[[j]] <- tree_codes(trees$features[[j]], columns[[j]])
  total <- matrix(0, n_rows, ncol(trees$values))
  for (root in trees$roots) {
    node <- rep(root, n_rows)
    while (any(inside <- node >= 0)) {
      question <- trees$questions[node[inside] + 1]
      feature <- trees$asked[question + 1] + 1
      code <- numeric(length(question))
      rows <- which(inside)
      for (j in unique(feature)) code[feature == j] <- codes[[j]][rows[feature == j]]
      goes_right <- trees$right[starts[question + 1] + code + 1]
      node[inside] <- trees$children[cbind(node[inside] + 1, 1 + goes_right)]
    }
    total <- total + trees$values[-node, , drop = FALSE]
  }
  total
}

tree_codes <- function(feature, x) {
  n_codes <- length(feature$masses)
  known <- is.finite(x)
  code <- ifelse(is.nan(x), n_codes - 1, n_codes - 2)
  groups <- feature$groups
  code[known] <- if (is.null(groups)) {
    findInterval(x[known], flat(feature$ends), left.open = TRUE)
  } else {
    flat(groups)[x[known] + 1]
  }
  code
}

# Contributions of intercept, components and remainder: (rows, parts, outputs).
contributions <- function(model, data) {
  encoder <- model$encoder
  names <- feature_names(encoder)
  parts <- c(model$components, if (!is.null(model$remainder)) model$remainder$components)
  used <- unique(c(flat(parts), if (!is.null(model$remainder)) model$remainder$trees$asked)) + 1
  lacking <- setdiff(names[used], names(data))
  if (length(lacking)) {
    stop("newdata: the columns of the model are needed, found none of ",
         paste(utils::head(lacking, 5), collapse = ", "), ".")
  }
  columns <- vector("list", length(names))
  for (j in used) columns[[j]] <- numbers(encoder$features[[j]], data[[names[j]]])
  n_rows <- nrow(data)
  n_outputs <- length(model$intercepts)
  labels <- vapply(model$components, function(s) paste(names[s + 1], collapse = " x "), "")
  if (!is.null(model$remainder)) labels <- c(labels, "remainder")
  values <- array(0, c(n_rows, length(labels), n_outputs), list(NULL, labels, NULL))
  for (i in seq_along(model$components)) {
    values[, i, ] <- component_values(encoder, columns, model$components[[i]], model$tables[[i]],
                                      n_outputs)
  }
  if (!is.null(model$remainder)) {
    rest <- model$remainder
    held <- tree_values(rest$trees, encoder, columns, n_rows)
    held <- sweep(held, 2, rest$constants)
    for (i in seq_along(rest$components)) {
      held <- held - component_values(encoder, columns, rest$components[[i]], rest$tables[[i]],
                                      n_outputs)
    }
    values[, length(labels), ] <- held
  }
  values
}

known_offset <- function(model, data, offset) {
  column <- model$encoder$offset_column
  if (is.null(column)) return(if (is.null(offset)) 0 else offset)
  name <- if (is.null(column$name)) paste0("x", column$place) else column$name
  if (!name %in% names(data)) stop("newdata: the column of the offset is needed, ", name, ".")
  if (column$is_exposure) log(data[[name]]) else data[[name]]
}

predict.tpnn <- function(object, newdata, type = c("response", "link", "terms"), offset = NULL,
                         ...) {
  type <- match.arg(type)
  data <- as.data.frame(newdata)
  parts <- contributions(object, data)
  if (type == "terms") {
    return(if (dim(parts)[3] == 1) matrix(parts, nrow(data), dimnames = dimnames(parts)[1:2])
           else parts)
  }
  scores <- apply(parts, c(1, 3), sum)
  dim(scores) <- dim(parts)[c(1, 3)]
  scores <- sweep(scores, 2, object$intercepts, "+") + known_offset(object, data, offset)
  if (length(object$outputs) == ncol(scores)) colnames(scores) <- object$outputs
  if (type == "response") scores <- inverse_link(object$link, scores)
  if (ncol(scores) == 1) as.vector(scores) else scores
}

inverse_link <- function(link, scores) {
  switch(link,
    log = exp(pmin(pmax(scores, -300), 300)),
    logit = stats::plogis(scores),
    softmax = {
      odds <- exp(scores - apply(scores, 1, max))
      odds / rowSums(odds)
    },
    quantiles = {
      sorted <- t(apply(scores, 1, sort))
      dimnames(sorted) <- dimnames(scores)
      sorted
    },
    scores
  )
}

fit_tpnn <- function(formula, data, weights = NULL, ...) {
  if (!requireNamespace("reticulate", quietly = TRUE)) {
    stop("fits need the package reticulate and a Python with tpnn. Run install.packages('reticulate').")
  }
  parts <- terms(formula, data = data)
  target <- if (length(formula) == 3 && is.name(formula[[2]])) as.character(formula[[2]])
  features <- gsub("^`|`$", "", attr(parts, "term.labels"))
  is_plain <- is.null(attr(parts, "offset")) && attr(parts, "intercept") == 1
  if (is.null(target) || !is_plain || target %in% features ||
      !all(c(target, features) %in% names(data))) {
    stop("formula: columns of data are needed, one on the left and others on the right, such as ",
         "y ~ . or y ~ a + b; found ", deparse1(formula), ". Transform columns in data. Name an ",
         "offset on the right, and again as offset. Interactions are found, or listed as interactions.")
  }
  pandas <- reticulate::import("pandas", convert = FALSE)
  columns <- lapply(data[features], as_python, pandas = pandas)
  X <- pandas$DataFrame(reticulate::py_dict(features, unname(columns)))
  y <- data[[target]]
  is_class <- is.factor(y) || is.character(y) || is.logical(y)
  library <- reticulate::import("tpnn", convert = FALSE)
  settings <- lapply(list(...), whole)
  estimator <- do.call(if (is_class) library$TPNNClassifier else library$TPNNRegressor, settings)
  if (is.factor(y)) y <- as.character(y)
  if (!is.null(weights)) weights <- as.list(as.numeric(weights))
  fitted <- estimator$fit(X, as_python(y, pandas), sample_weight = weights)
  path <- tempfile(fileext = ".json")
  on.exit(unlink(path))
  fitted$model_$to_json(path)
  model <- read_tpnn(path)
  model$python <- fitted
  model
}

# Python knows 2 from 2.0, and parameters such as n_bags are whole numbers.
whole <- function(x) {
  is_whole <- is.numeric(x) && length(x) == 1 && isTRUE(x == round(x)) && abs(x) < 2^31
  if (is_whole) as.integer(x) else x
}

# A column as pandas has it; what R calls NA is missing there, too. Numbers go as lists, because
# older versions of reticulate do not know the arrays of NumPy 2.
as_python <- function(x, pandas) {
  if (is.ordered(x)) {
    return(pandas$Categorical(words(x), categories = as.list(levels(x)), ordered = TRUE))
  }
  if (inherits(x, c("Date", "POSIXt"))) {
    text <- format(as.POSIXct(x), "%Y-%m-%dT%H:%M:%OS6", tz = "UTC")
    return(pandas$to_datetime(words(text)))
  }
  if (inherits(x, "difftime")) {
    return(pandas$to_timedelta(as.list(as.numeric(x, units = "secs")), unit = "s"))
  }
  if (is.factor(x) || is.character(x)) return(pandas$Series(words(x), dtype = "object"))
  as.list(if (anyNA(x)) as.numeric(x) else x)
}

words <- function(x) lapply(as.character(x), function(word) if (is.na(word)) NULL else word)

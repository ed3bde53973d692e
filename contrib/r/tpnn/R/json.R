# JSON as lists and vectors. An array of numbers alone is a numeric vector, any other one a list;
# null is NULL as a value and NA in an array.

TOKEN <- paste0('"(?:[^"\\\\]|\\\\.)*"|[][{},:]|true|false|null|',
                "-?[0-9]+(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

parse_json <- function(text) {
  tokens <- regmatches(text, gregexpr(TOKEN, text, perl = TRUE))[[1]]
  is_bracket <- tokens %in% c("[", "]", "{", "}")
  places <- which(is_bracket)
  # The first bracket at or after each token, where an array without others inside ends.
  following <- c(places, NA)[findInterval(seq_along(tokens) - 1, places) + 1]
  position <- 0L

  step <- function() {
    position <<- position + 1L
    tokens[position]
  }

  scalar <- function(token) {
    first <- substr(token, 1, 1)
    if (first == '"') return(unquoted(token))
    switch(token, true = TRUE, false = FALSE, null = NULL, as.numeric(token))
  }

  value <- function() {
    token <- step()
    if (token == "{") return(object())
    if (token == "[") return(array_at())
    scalar(token)
  }

  object <- function() {
    names <- character()
    values <- list()
    while (tokens[position + 1L] != "}") {
      name <- unquoted(step())
      step() # the colon
      names <- c(names, name)
      values[length(names)] <- list(value())
      if (tokens[position + 1L] == ",") step()
    }
    step()
    stats::setNames(values, names)
  }

  array_at <- function() {
    end <- following[position + 1L]
    if (tokens[end] == "]") {
      inside <- tokens[seq_len(end - position - 1L) + position]
      inside <- inside[inside != ","]
      position <<- end
      if (!length(inside)) return(list())
      if (all(grepl("^[-0-9]", inside))) return(as.numeric(inside))
      return(lapply(inside, function(token) if (token == "null") NA else scalar(token)))
    }
    values <- list()
    while (tokens[position + 1L] != "]") {
      values[length(values) + 1L] <- list(value())
      if (tokens[position + 1L] == ",") step()
    }
    step()
    values
  }

  value()
}

unquoted <- function(token) {
  text <- substr(token, 2, nchar(token) - 1)
  if (!grepl("\\", text, fixed = TRUE)) return(text)
  parts <- regmatches(text, gregexpr("\\\\u[0-9a-fA-F]{4}|\\\\.|[^\\\\]+", text, perl = TRUE))[[1]]
  plain <- c(n = "\n", t = "\t", r = "\r", b = "\b", f = "\f")
  codes <- grepl("^\\\\u", parts)
  units <- strtoi(substr(parts[codes], 3, 6), 16L)
  parts[codes] <- vapply(units, intToUtf8, "", allow_surrogate_pairs = FALSE)
  high <- which(codes)[units >= 0xD800 & units < 0xDC00]
  for (place in high) { # a pair of them is one character
    pair <- strtoi(substr(regmatches(text, gregexpr("\\\\u[0-9a-fA-F]{4}|\\\\.|[^\\\\]+", text,
                                                    perl = TRUE))[[1]][place + 0:1], 3, 6), 16L)
    parts[place] <- intToUtf8(0x10000 + (pair[1] - 0xD800) * 0x400 + (pair[2] - 0xDC00))
    parts[place + 1] <- ""
  }
  escaped <- grepl("^\\\\.", parts) & !codes
  letters <- substr(parts[escaped], 2, 2)
  parts[escaped] <- ifelse(letters %in% names(plain), plain[letters], letters)
  paste(parts, collapse = "")
}

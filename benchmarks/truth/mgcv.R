# Fits one generalised additive model and writes its terms, their errors and degrees of freedom.
suppressMessages(library(mgcv))
folder <- commandArgs(trailingOnly = TRUE)[1]
rows <- read.csv(file.path(folder, "rows.csv"), stringsAsFactors = TRUE)
points <- read.csv(file.path(folder, "points.csv"), stringsAsFactors = TRUE)
formula <- as.formula(readLines(file.path(folder, "formula.txt")))
family <- eval(parse(text = readLines(file.path(folder, "family.txt"))))
for (name in names(points)) if (is.factor(points[[name]]))
  points[[name]] <- factor(points[[name]], levels = levels(rows[[name]]))
began <- sum(proc.time()[1:2])
model <- if (family$family == "gaussian") {
  bam(formula, family = family, data = rows)
} else if (family$family == "Cox PH") {
  gam(formula, family = family, data = rows, weights = rows$event, method = "REML")
} else {
  gam(formula, family = family, data = rows, method = "REML")
}
seconds <- sum(proc.time()[1:2]) - began
terms <- predict(model, points, type = "terms", se.fit = TRUE)
write.csv(terms$fit, file.path(folder, "effects.csv"), row.names = FALSE)
write.csv(terms$se.fit, file.path(folder, "errors.csv"), row.names = FALSE)
degrees <- sapply(model$smooth, function(s) sum(model$edf[s$first.para:s$last.para]))
write.csv(data.frame(degrees, seconds), file.path(folder, "degrees.csv"), row.names = FALSE)

# Three small data sets with known numbers.
small_release <- function() {
  set.seed(4)
  frames <- lapply(1:3, function(i) {
    data.frame(s = rep(c("a", "b"), each = 10),
               g = factor(sample(c("u", "v", "w"), 20, TRUE), levels = c("u", "v", "w")),
               y = round(rnorm(20, 10 + i), 2), x = round(rexp(20) + 1, 2), w = rep(c(2, 3), 10))
  })
  designs <- lapply(frames, function(f) svydesign(ids = ~1, strata = ~s, weights = ~w, data = f))
  manifest <- list(synthesized = "y", design = list(lonely_psu = "fail"))
  structure(list(designs = designs, count_designs = designs, manifest = manifest), class = "surveysynth_release")
}

# T = mean(u) + b / m and its degrees of freedom, by hand, from m estimates and standard errors.
by_hand <- function(q, se, degf) {
  m <- length(q)
  b <- sum((q - mean(q))^2) / (m - 1) / m
  T <- mean(se^2) + b
  c(mean(q), sqrt(T), min((m - 1) * (1 + mean(se^2) / b)^2, degf))
}

# Degrees of freedom of domains, the least of the data sets: of the units and strata that hold their records.
left <- function(release, ...) {
  groups <- expand.grid(..., stringsAsFactors = FALSE)
  vapply(seq_len(nrow(groups)), function(row) {
    min(vapply(release$designs, function(d) {
      inside <- Reduce(`&`, lapply(names(groups), function(by) d$variables[[by]] == groups[row, by]))
      length(unique(d$cluster[inside, 1])) - length(unique(d$strata[inside, 1]))
    }, 0L))
  }, 0L)
}

# Tests of survey on every data set: survey's own for one, the rule by hand for several.

alone <- function(release) {
  release$designs <- release$designs[1]
  release
}

with_levels <- function(release) {
  for (i in 1:3) {
    f <- release$designs[[i]]$variables
    release$designs[[i]]$variables$h <- factor(ifelse(f$x > median(f$x), "more", "less"))
  }
  release
}

# Reiter (2005, section 2) by hand: F, and its degrees of freedom.
reiter <- function(q, U, most) {
  m <- nrow(q)
  p <- ncol(q)
  U <- Reduce(`+`, U) / m
  r <- sum(diag(var(q) %*% solve(U))) / m / p
  t <- p * (m - 1)
  w <- if (t > 4) 4 + (t - 4) * (1 + (1 - 2 / t) / r)^2 else t * (1 + 1 / p) * (1 + 1 / r)^2 / 2
  c(drop(t(colMeans(q)) %*% solve(U) %*% colMeans(q)) / p / (1 + r), p, min(w, most))
}

expect_t <- function(test, hand) {
  expect_equal(unname(c(test$estimate, test$estimate / test$statistic, test$parameter)), hand, tolerance = 1e-9)
  expect_equal(unname(test$p.value), 2 * pt(-abs(hand[1] / hand[2]), hand[3]), tolerance = 1e-9)
}

test_that("svyttest() is the t test of the combined difference", {
  release <- small_release()
  for (formula in list(y ~ s, x ~ s, y ~ 1)) {
    one <- combine_release(with_release(alone(release), svyttest(formula, design)))
    theirs <- svyttest(formula, release$designs[[1]])
    for (what in c("statistic", "parameter", "estimate", "p.value", "conf.int", "method")) {
      expect_equal(one[[what]], theirs[[what]], ignore_attr = TRUE, tolerance = 1e-9)
    }
    several <- combine_release(with_release(release, svyttest(formula, design)))
    means <- formula[[3]] == 1
    each <- lapply(release$designs, function(d) if (means) svymean(~y, d) else svyglm(formula, d))
    k <- if (means) 1 else 2
    hand <- by_hand(vapply(each, function(e) coef(e)[[k]], 0), vapply(each, function(e) SE(e)[[k]], 0), 17)
    expect_t(several, hand)
    expect_equal(as.vector(several$conf.int), hand[1] + c(-1, 1) * qt(0.975, hand[3]) * hand[2], tolerance = 1e-9)
    expect_equal(as.vector(confint(several, level = 0.8)), hand[1] + c(-1, 1) * qt(0.9, hand[3]) * hand[2], tolerance = 1e-9)
  }
  expect_output(print(several), "t-test of synthetic data sets")
})

test_that("svychisq() is Wald's test of independence, of the combined table", {
  release <- with_levels(small_release())
  for (formula in list(~ g + h, ~ h + s, ~ g + s)) {
    one <- combine_release(with_release(alone(release), svychisq(formula, design)))
    theirs <- svychisq(formula, release$designs[[1]], statistic = "Wald")
    expect_equal(unname(c(one$statistic, one$parameter, one$p.value)),
                 unname(c(theirs$statistic, theirs$parameter, theirs$p.value)), tolerance = 1e-9)

    # differences between observed and expected shares, by svycontrast() from the cells
    each <- lapply(release$designs, function(d) {
      f <- d$variables
      a <- f[[all.vars(formula)[1]]]
      b <- factor(f[[all.vars(formula)[2]]])
      a <- factor(a)
      d$variables$cell <- interaction(as.integer(a), as.integer(b), sep = "_")
      shares <- svytotal(~cell, d)
      cell <- function(i, j) as.name(paste0("cell", i, "_", j))
      sum_of <- function(names) Reduce(function(u, v) call("+", u, v), names)
      rows <- seq_len(nlevels(a))
      columns <- seq_len(nlevels(b))
      all_cells <- sum_of(unlist(lapply(rows, function(i) lapply(columns, function(j) cell(i, j)))))
      expressions <- list()
      for (j in columns[-1]) for (i in rows[-1]) {
        row <- sum_of(lapply(columns, function(k) cell(i, k)))
        column <- sum_of(lapply(rows, function(k) cell(k, j)))
        expressions[[paste(i, j)]] <- bquote(.(cell(i, j)) - (.(row)) * (.(column)) / (.(all_cells)))
      }
      svycontrast(shares, expressions)
    })
    q <- do.call(rbind, lapply(each, function(e) as.vector(coef(e))))
    hand <- reiter(q, lapply(each, function(e) unname(as.matrix(vcov(e)))), 18)
    several <- combine_release(with(release, svychisq(formula)))
    expect_equal(unname(c(several$statistic, several$parameter)), hand, tolerance = 1e-9)
    expect_equal(unname(several$p.value), pf(hand[1], hand[2], hand[3], lower.tail = FALSE), tolerance = 1e-9)
  }
  expect_output(print(several), "Wald test of independence of synthetic data sets")
})

test_that("svychisq() is that of Python's release", {
  need_python()
  release <- shared_release()
  release <- update(release, good = ifelse(api00 > 700, "yes", "no"))
  ours <- combine_release(with_release(release, svychisq(~ stype + good, design)))
  write_release(shared_release(), folder <- tempfile("release"))
  theirs <- from_python("
import surveysynth as ss, numpy as np
release = ss.read_release(sys.argv[1])
release = release.assign(good=lambda f: np.where(f.api00 > 700, 'yes', 'no'))
test = release.independence_test('stype', 'good')
print(json.dumps([float(test.statistic), float(test.df), float(test.ddf), float(test.p)]))", folder)
  expect_equal(unname(c(ours$statistic, ours$parameter, ours$p.value)), unlist(theirs), tolerance = 1e-9)
})

test_that("a test sees the design that it was called with, and a category that a data set lacks", {
  release <- with_levels(small_release())
  inside <- alone(release)
  one <- combine_release(with_release(inside, svychisq(~ h + s, subset(design, g != "u"))))
  theirs <- svychisq(~ h + s, subset(release$designs[[1]], g != "u"), statistic = "Wald")
  expect_equal(unname(one$statistic), as.vector(theirs$statistic), tolerance = 1e-9)
  expect_equal(one$p.value, theirs$p.value, ignore_attr = TRUE, tolerance = 1e-9)
  expect_lt(one$parameter[2], 18)
  own <- function(design) survey::svychisq(~ h + s, update(design, h = x > 2))
  one <- combine_release(with_release(inside, own(design)))
  theirs <- svychisq(~ h + s, update(release$designs[[1]], h = x > 2), statistic = "Wald")
  expect_equal(unname(one$statistic), as.vector(theirs$statistic), tolerance = 1e-9)

  lacking <- release
  lacking$designs[[2]]$variables$g[lacking$designs[[2]]$variables$g == "w"] <- "u"
  test <- combine_release(with_release(lacking, svychisq(~ g + h, design)))
  expect_identical(unname(test$parameter[1]), 2)
  expect_true(test$p.value > 0 && test$p.value < 1)
  fixed <- release # sizes of strata, which a design of equal weights fixes
  fixed$designs <- lapply(release$designs, function(d) svydesign(~1, strata = ~s, weights = rep(2, 20), data = transform(d$variables, h = s)))
  expect_error(combine_release(with_release(fixed, svychisq(~ h + s, design))), "covariance of the cells is singular")
})

test_that("svyranktest() is the test of combined differences of mean scores", {
  release <- small_release()
  for (test in c("wilcoxon", "vanderWaerden", "median", "KruskalWallis")) {
    one <- combine_release(with_release(alone(release), svyranktest(x ~ s, design, test = test)))
    theirs <- svyranktest(x ~ s, release$designs[[1]], test = test)
    for (what in c("statistic", "parameter", "estimate", "p.value", "method", "data.name")) {
      expect_equal(one[[what]], theirs[[what]], ignore_attr = TRUE, tolerance = 1e-9)
    }
    each <- lapply(release$designs, function(d) svyranktest(x ~ s, d, test = test))
    hand <- by_hand(vapply(each, `[[`, 0, "estimate"), vapply(each, function(e) e$estimate / e$statistic, 0), 17)
    expect_t(combine_release(with_release(release, svyranktest(x ~ s, design, test = test))), hand)

    one <- combine_release(with_release(alone(release), svyranktest(x ~ g, design, test = test)))
    theirs <- svyranktest(x ~ g, release$designs[[1]], test = test)
    expect_equal(unname(c(one$statistic, one$parameter, one$p.value)),
                 c(theirs$parameter / 2, 2, theirs$ddf, theirs$p.value), ignore_attr = TRUE, tolerance = 1e-9)
  }
  scores <- lapply(release$designs, function(d) { # weighted mid-ranks over the sum of the weights, by their definition
    f <- d$variables
    rank <- vapply(f$x, function(x) sum(f$w[f$x < x]) + sum(f$w[f$x == x]) / 2, 0)
    svyglm(score ~ g, update(d, score = rank / sum(f$w)))
  })
  hand <- reiter(do.call(rbind, lapply(scores, function(fit) coef(fit)[-1])), lapply(scores, function(fit) vcov(fit)[-1, -1]), 16)
  several <- combine_release(with_release(release, svyranktest(x ~ g, design)))
  expect_equal(unname(c(several$statistic, several$parameter)), hand, tolerance = 1e-9)
  holes <- alone(release)
  holes$designs[[1]]$variables$x[3:4] <- NA
  expect_equal(combine_release(with_release(holes, svyranktest(x ~ s, design)))$statistic,
               svyranktest(x ~ s, holes$designs[[1]])$statistic, ignore_attr = TRUE, tolerance = 1e-9)
  lacking <- release
  lacking$designs[[2]]$variables$g[lacking$designs[[2]]$variables$g == "w"] <- "u"
  expect_error(combine_release(with_release(lacking, svyranktest(x ~ g, design))), "other groups in some data sets")
})

test_that("tests know designs of replicates, of PSUs and of known totals", {
  replicates <- as.svrepdesign(svydesign(ids = ~1, strata = ~stype, weights = ~pw, data = apistrat))
  for (design in list(replicates, clus2, poststratified)) {
    release <- small_release()
    release$designs <- list(design)
    ours <- combine_release(with_release(release, svychisq(~ stype + awards, design)))
    theirs <- svychisq(~ stype + awards, design, statistic = "Wald")
    expect_equal(as.vector(ours$statistic), as.vector(theirs$statistic), tolerance = 1e-9)
    ours <- combine_release(with_release(release, svyttest(api00 ~ awards, design)))
    theirs <- svyttest(api00 ~ awards, design)
    expect_equal(c(ours$statistic, ours$parameter), c(theirs$statistic, theirs$parameter), tolerance = 1e-9)
    ours <- combine_release(with_release(release, svyranktest(api00 ~ awards, design)))
    theirs <- svyranktest(api00 ~ awards, design)
    expect_equal(c(ours$statistic, ours$parameter), c(theirs$statistic, theirs$parameter), tolerance = 1e-9)
    if (inherits(design, "svyrep.design")) next # of which survey has no test of three groups
    ours <- combine_release(with_release(release, svyranktest(api00 ~ stype, design)))
    theirs <- svyranktest(api00 ~ stype, design)
    expect_equal(unname(ours$statistic), as.vector(theirs$parameter) / 2, tolerance = 1e-9)
  }
})

test_that("noise that all data sets share is in the variance of tests", {
  release <- with_levels(small_release())
  results <- with_release(release, svyttest(y ~ s, design))
  again <- lapply(1:4, function(k) svyttest(y ~ s, update(release$designs[[1]], y = y + k * (s == "a"))))
  noise <- var(vapply(again, function(test) test$estimate, 0))
  plain <- combine_release(results)
  with_noise <- combine_release(results, redrawn = again)
  expect_equal((with_noise$estimate / with_noise$statistic)^2, (plain$estimate / plain$statistic)^2 + noise, ignore_attr = TRUE)
  marked <- lapply(list(c(0, 1), c(1, 0), c(1, 1), c(0, 0)), function(k) {
    d <- release$designs[[1]]
    d$variables$x[1:2] <- d$variables$x[1:2] + 10 * k
    d$variables$h <- factor(ifelse(d$variables$x > 1.7, "more", "less"))
    d
  })
  chisq <- with_release(release, svychisq(~ s + h, design))
  again <- lapply(marked, function(d) svychisq(~ s + h, bridge$marked(d)))
  cell <- vapply(marked, function(d) { # the one difference that is tested
    N <- svytable(~ s + h, d)
    N[2, 2] - sum(N[2, ]) * sum(N[, 2]) / sum(N)
  }, 0)
  parts <- lapply(release$designs, function(d) {
    d$variables$cell <- interaction(d$variables$s, d$variables$h, sep = "_")
    svycontrast(svytotal(~cell, d), quote(cellb_more - (cellb_more + cellb_less) * (cellb_more + cella_more) /
                                            (cella_less + cella_more + cellb_less + cellb_more)))
  })
  q <- vapply(parts, coef, 0)
  T <- mean(vapply(parts, vcov, 0)) + var(q) / 3 + var(cell)
  expect_equal(unname(combine_release(chisq, redrawn = again)$statistic), mean(q)^2 / T, tolerance = 1e-9)
})

test_that("degrees of freedom of joint tests are Reiter's where the design sets no limit", {
  set.seed(5)
  U <- crossprod(matrix(rnorm(12), 4)) # of 3 estimates
  for (m in c(2, 3, 5)) {
    q <- matrix(rnorm(3 * m, sd = 3), m)
    test <- bridge$reiter_test(q, rep(list(U), m), NULL, Inf)
    expect_equal(unlist(test, use.names = FALSE), reiter(q, rep(list(U), m), Inf), tolerance = 1e-9)
    expect_lt(test$ddf, 1000)
  }
})

test_that("under the hypothesis the rule for synthetic data rejects 5%, and that for missing data does not", {
  set.seed(11)
  m <- 3
  p <- 2
  U <- matrix(c(1, 0.4, 0.4, 1), 2)
  B <- 2 * U
  rejects <- replicate(4000, {
    Q <- drop(t(chol(U)) %*% rnorm(p)) # the sample's own estimate; each data set differs from it by synthesis
    q <- t(replicate(m, Q + drop(t(chol(B)) %*% rnorm(p))))
    test <- bridge$reiter_test(q, rep(list(U), m), NULL, Inf)
    r <- (1 + 1 / m) * sum(diag(var(q) %*% solve(U))) / p # the rule for imputed data
    t <- p * (m - 1)
    w <- t * (1 + 1 / p) * (1 + 1 / r)^2 / 2
    missing <- drop(t(colMeans(q)) %*% solve(U) %*% colMeans(q)) / p / (1 + r)
    c(pf(test$F, test$df, test$ddf, lower.tail = FALSE), pf(missing, p, w, lower.tail = FALSE)) < 0.05
  })
  expect_true(abs(mean(rejects[1, ]) - 0.05) < 0.015)
  expect_lt(mean(rejects[2, ]), 0.03)
})

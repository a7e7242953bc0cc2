test_that("predictions are survey's for one data set, and the rule by hand for several", {
  release <- small_release()
  new <- data.frame(x = c(1.5, 3), g = c("v", "w"), row.names = c("first", "second"))
  one <- release
  one$designs <- release$designs[1]
  for (family in list(gaussian(), quasibinomial(), Gamma("inverse"))) {
    formula <- if (family$family == "quasibinomial") I(y > 12) ~ x + g else y ~ x + g
    for (type in c("link", "response")) {
      single <- combine_release(with_release(one, svyglm(formula, design, family = family)))
      theirs <- predict(svyglm(formula, release$designs[[1]], family = family), new, type = type, vcov = TRUE)
      ours <- predict(single, new, type = type)
      expect_equal(coef(ours), coef(theirs), ignore_attr = TRUE, tolerance = 1e-9)
      expect_equal(vcov(ours), vcov(theirs), ignore_attr = TRUE, tolerance = 1e-9)
    }
    models <- combine_release(with_release(release, svyglm(formula, design, family = family)))
    each <- lapply(release$designs, function(d) predict(svyglm(formula, d, family = family), new))
    q <- do.call(rbind, lapply(each, function(e) as.vector(coef(e))))
    se <- do.call(rbind, lapply(each, function(e) as.vector(SE(e))))
    link <- as.data.frame(predict(models, new))
    response <- as.data.frame(predict(models, new, type = "response"))
    for (row in 1:2) {
      hand <- by_hand(q[, row], se[, row], df.residual(models))
      expect_equal(unlist(link[row, c("estimate", "se", "df")], use.names = FALSE), hand, tolerance = 1e-9)
      slope <- abs(family$mu.eta(hand[1]))
      expect_equal(unlist(response[row, c("estimate", "se", "df")], use.names = FALSE),
                   c(family$linkinv(hand[1]), slope * hand[2], hand[3]), tolerance = 1e-9)
      limits <- family$linkinv(hand[1] + c(-1, 1) * qt(0.975, hand[3]) * hand[2])
      expect_equal(unlist(response[row, c("ci_low", "ci_high")], use.names = FALSE), sort(limits), tolerance = 1e-9)
    }
    in_calls <- combine_release(with_release(release, predict(svyglm(formula, design, family = family), new)),
                                degf = df.residual(models))
    expect_equal(as.data.frame(in_calls), link, tolerance = 1e-9)
  }
  expect_identical(rownames(link), c("first", "second"))
  expect_equal(vcov(predict(models, new))[1, 2], {
    covariances <- vapply(release$designs, function(d) {
      vcov(predict(svyglm(y ~ x + g, d, family = Gamma("inverse")), new, vcov = TRUE))[1, 2]
    }, 0)
    mean(covariances) + cov(q)[1, 2] / 3
  }, tolerance = 1e-9)
  expect_error(predict(models), "newdata is a data frame of predictors")
  expect_error(predict(combine_release(with(release, svymean(~y))), new), "takes a combined regression")
})

test_that("a level that a data set lacks is predicted from the others", {
  release <- small_release()
  lacking <- release
  lacking$designs[[2]]$variables$g[lacking$designs[[2]]$variables$g == "w"] <- "u"
  models <- combine_release(with(lacking, svyglm(y ~ g)))
  got <- as.data.frame(predict(models, data.frame(g = c("u", "w"))))
  q <- vapply(lacking$designs[c(1, 3)], function(d) coef(predict(svyglm(y ~ g, d), data.frame(g = "w"))), 0)
  expect_equal(got$estimate[2], mean(q), tolerance = 1e-9)
})

test_that("anova() of nested regressions is the Wald test of the terms that one has more", {
  release <- small_release()
  large <- combine_release(with(release, svyglm(y ~ x + g + s)))
  small <- combine_release(with(release, svyglm(y ~ x)))
  expect_equal(anova(large, small), wald_test(large, ~ g + s))
  expect_equal(anova(small, large), anova(large, small))
  one <- release
  one$designs <- release$designs[1]
  design <- release$designs[[1]]
  theirs <- anova(svyglm(y ~ x + g + s, design), svyglm(y ~ x, design), method = "Wald")
  ours <- anova(combine_release(with(one, svyglm(y ~ x + g + s))), combine_release(with(one, svyglm(y ~ x))))
  expect_equal(c(ours$statistic, ours$parameter, ours$p.value), c(theirs$Ftest, theirs$df, theirs$ddf, theirs$p),
               ignore_attr = TRUE, tolerance = 1e-9)
  expect_error(anova(large), "anova\\(small, large\\), or test a term of this one: wald_test")
  expect_error(anova(small, combine_release(with(release, svyglm(y ~ s)))), "one has all terms of the other")
  expect_error(anova(small, combine_release(with(release, svyglm(w ~ x + s)))), "two regressions of one response")
  expect_error(anova(large, large), "and more")
})

test_that("what combined regressions have not is refused by name", {
  model <- combine_release(with(small_release(), svyglm(y ~ x + g)))
  expect_error(fitted(model), "fitted values belong to the records of one data set")
  expect_error(residuals(model), "residuals belong to the records")
  expect_error(AIC(model), "AIC is of one fit: .*anova\\(small, large\\)")
  expect_error(BIC(model), "BIC is of one fit")
  expect_error(logLik(model), "the likelihood is of one fit")
  expect_error(deviance(model), "deviance is of one fit")
  expect_error(regTermTest(model, ~g), "use wald_test\\(object, ~ term\\)")
  skip_if_not_installed("generics")
  expect_error(generics::augment(model), "augment\\(\\) belong to the records")
})

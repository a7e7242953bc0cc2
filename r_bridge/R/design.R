# Survey designs and the roles of their columns: what the design objects of R's survey package and of
# Python's surveysynth have in common.

#' The frame and the roles of a design
#'
#' Columns keep their names where the design still has them; others are added.
#'
#' @param design A `survey.design`, `svyrep.design` or srvyr `tbl_svy`.
#' @return A list with `frame`; `roles`, named as the arguments of Python's `SurveyDesign`; and `joint`,
#'   the joint inclusion probabilities of a pps design, or `NULL`.
#' @noRd
design_parts <- function(design) {
  refuse_design(design)
  if (inherits(design, "svyrep.design")) return(replicate_parts(design))
  frame <- plain_frame(design$variables)
  allprob <- as.data.frame(design$allprob)
  calibrated <- !is.null(design$postStrata)
  drawn <- if (calibrated) weights_before(design) else 1 / design$prob
  named <- name_weights(frame, if (length(allprob) == 1) names(allprob), drawn)
  frame <- named$frame
  roles <- c(named$roles, stage_roles(design, frame))
  frame <- roles$frame
  roles$frame <- NULL
  if (calibrated) {
    known <- calibration_parts(design, frame, roles, drawn)
    frame <- known$frame
    roles <- known$roles
  }
  joint <- NULL
  if (is_brewer(design)) {
    roles$fpc <- NULL
    roles$pps <- "brewer"
  }
  if (inherits(design, "pps")) {
    pps <- pps_parts(design, 1 / drawn)
    roles$fpc <- NULL
    roles$pps <- pps$pps
    joint <- pps$joint
  }
  lonely <- getOption("survey.lonely.psu", "fail")
  if (lonely == "fail" && !is.null(attr(design, "lonely_psu"))) lonely <- attr(design, "lonely_psu") # from Python
  roles$lonely_psu <- if (lonely == "certainty") "remove" else lonely
  list(frame = frame, roles = roles, joint = joint)
}

AS_A_DOMAIN <- paste("take the whole design, and the subset as a domain: where = ~ condition in estimate(), and in tables() of",
                     "the release")

refuse_design <- function(design) {
  no <- function(what, instead) refuse(what, " cannot be carried over; ", instead)
  if (inherits(design, c("twophase", "twophase2"))) {
    no("a two-phase design", "give the design of the phase whose weights the tables use")
  }
  if (inherits(design, c("DBIsvydesign", "ODBCsvydesign", "DBIrepdesign"))) {
    no("a design whose data are in a database", "read the data first")
  }
  if (!inherits(design, c("survey.design2", "svyrep.design", "pps"))) {
    refuse("a design of the survey package was expected (svydesign(), svrepdesign(), srvyr's as_survey()), not a ",
         class(design)[1])
  }
  if (all(as.matrix(stats::weights(design, "sampling")) == 0)) { # which calibrated designs leave to the others
    refuse("the design has no records: where it is a subset, none meets its condition")
  }
  if (inherits(design, "svyrep.design")) return(invisible())
  if (is_brewer(design)) refuse_brewer(design, no)
  refuse_calibration(design, no)
  zero <- is.infinite(design$prob)
  subset <- zero & is.finite(apply(as.matrix(design$allprob), 1, prod)) # a record that had a weight
  if (any(subset) || any(zero) && (length(design$postStrata) || inherits(design, "pps") || is_brewer(design))) {
    no("a subset of a calibrated design, or of one with pps =, or another such design with weights of 0", AS_A_DOMAIN)
  }
  for (k in seq_along(design$cluster)) {
    stratum <- numbered(design$strata[[k]])
    there <- tabulate(stratum[!duplicated(design$cluster[[k]])], max(stratum))[stratum]
    if (any(there != design$fpc$sampsize[, k])) {
      no("a subset of a design", AS_A_DOMAIN)
    }
  }
  if (ncol(design$strata) > 1 && nested_strata(design)) no("a design with strata at a later stage", "leave them out")
}

refuse_brewer <- function(design, no) {
  if (length(design$cluster) > 1 || anyDuplicated(design$cluster[[1]])) {
    no("a design with pps = \"brewer\" and clusters or several stages", "use svydesign() without pps=, whose standard errors are larger")
  }
  drawn <- if (length(design$postStrata)) weights_before(design) else 1 / design$prob
  chance <- design$fpc$sampsize[, 1] / design$fpc$popsize[, 1]
  if (any(abs(chance * drawn - 1)[drawn > 0] > 1e-9)) {
    no("a design with pps = \"brewer\" whose weights are not 1 / fpc", "leave out weights= and probs=")
  }
}

# Whether a later stage has strata of its own: then its strata are finer than the units above.
nested_strata <- function(design) {
  any(vapply(seq_along(design$cluster)[-1], function(k) {
    !same_groups(interaction(design$strata[[k]], drop = TRUE), design$cluster[[k - 1]])
  }, NA))
}

plain_frame <- function(variables) {
  frame <- as.data.frame(variables)
  labelled <- vapply(frame, function(x) inherits(x, "haven_labelled"), NA)
  frame[labelled] <- lapply(frame[labelled], by_label)
  attr(frame, "pandas") <- attr(variables, "pandas")
  frame
}

# A column of haven's whose every value has a label becomes a factor of the labels, in the order of the codes; labels that
# several values share are told apart by code, "other (8)".  With labels for some values only, such as "refused", it stays
# as it is.
by_label <- function(x) {
  values <- if (inherits(x, "haven_labelled_spss")) declared_missing(x) else as.vector(unclass(x))
  codes <- sort(attr(x, "labels"))
  codes <- codes[!is.na(codes) & !codes %in% attr(x, "na_values")]
  if (!length(codes) || !all(values[!is.na(values)] %in% codes)) return(x)
  structure(factor(values, unname(codes), told_apart(names(codes), codes)), label = attr(x, "label", exact = TRUE))
}

told_apart <- function(labels, codes) {
  shared <- labels %in% labels[duplicated(labels)]
  if (!any(shared)) return(labels)
  told_apart(ifelse(shared, paste0(labels, " (", codes, ")"), labels), codes)
}

# What haven's files call their columns.
variable_labels <- function(frame) {
  labels <- lapply(frame, attr, "label", exact = TRUE)
  Filter(function(label) is.character(label) && length(label) == 1 && nzchar(trimws(label)), labels)
}

same_groups <- function(a, b) identical(match(a, unique(a)), match(b, unique(b)))

free_name <- function(name, frame) if (name %in% names(frame)) free_name(paste0(".", name), frame) else name

# The column of weights or of probabilities that the design was made from, to the last bit; else a new one.
name_weights <- function(frame, candidates, weights) {
  for (name in intersect(candidates, names(frame))) {
    x <- numbers(frame[[name]])
    if (same_numbers(x, weights)) return(list(frame = frame, roles = list(weights = name)))
    if (same_numbers(1 / x, weights) && all(x <= 1)) return(list(frame = frame, roles = list(probs = name)))
  }
  name <- free_name("weight", frame)
  frame[[name]] <- weights
  list(frame = frame, roles = list(weights = name))
}

# A column as numbers, as Python takes it for some: without the labels that haven gives it, or from text.
numbers <- function(x) {
  if (is.factor(x) || is.character(x)) return(suppressWarnings(as.numeric(as.character(x))))
  if (is.numeric(x) && length(dim(x)) < 2) as.vector(unclass(x)) else NA_real_
}

same_numbers <- function(x, values) isTRUE(all(abs(numbers(x) - values) <= 1e-12 * abs(values)))

# Strata, sampling units and finite populations, by the columns that they came from.
stage_roles <- function(design, frame) {
  roles <- list()
  add <- function(name, values, known) {
    if (name %in% names(frame) && known(frame[[name]])) return(name)
    name <- free_name(name, frame)
    frame[[name]] <<- values
    name
  }
  if (design$has.strata) {
    first <- design$strata[[1]]
    roles$strata <- add(names(design$strata)[1], as.character(first), function(x) same_groups(x, first))
  }
  stages <- length(design$cluster)
  elements <- stages == 1 && !anyDuplicated(design$cluster[[1]])
  for (k in if (elements) integer() else seq_len(stages)) {
    unit <- design$cluster[[k]]
    above <- if (k > 1) design$cluster[[k - 1]] else if (design$has.strata) design$strata[[1]] else 1
    nested <- function(x) same_groups(paste(match(above, unique(above)), match(x, unique(x))), unit)
    roles$psu[k] <- add(names(design$cluster)[k], as.integer(match(unit, unique(unit))), nested)
  }
  popsize <- if (inherits(design, "pps") || is_brewer(design)) NULL else design$fpc$popsize
  for (k in seq_len(NCOL(popsize) * !is.null(popsize))) {
    endless <- is.infinite(popsize[, k])
    if (all(endless)) break # as without fpc: the stages below do not count
    if (any(endless)) {
      refuse("a design whose fpc is infinite in some strata only cannot be carried over; give these a large one")
    }
    fraction <- design$fpc$sampsize[, k] / popsize[, k]
    known <- function(x) same_numbers(x, popsize[, k]) || same_numbers(x, fraction)
    name <- colnames(popsize)[k]
    if (is.null(name) || !nzchar(name)) name <- paste0("fpc", k)
    roles$fpc[k] <- add(name, popsize[, k], known)
  }
  c(roles, list(frame = frame))
}

# pi_ij from R's check matrix (pi_ij - pi_i pi_j) / pi_ij; independent units have none off the diagonal.
pps_parts <- function(design, pi) {
  if (length(design$dcheck) != 1) {
    refuse("a pps= design of several stages cannot be carried over")
  }
  check <- as.matrix(design$dcheck[[1]]$dcheck)
  independent <- all(check[row(check) != col(check)] == 0)
  if (independent && design$variance == "HT") return(list(pps = "poisson", joint = NULL))
  joint <- outer(pi, pi) / (1 - check)
  diag(joint) <- pi
  list(pps = if (design$variance == "YG") "sen_yates_grundy" else "horvitz_thompson", joint = joint)
}

replicate_parts <- function(design) {
  frame <- plain_frame(design$variables)
  sampling <- as.vector(as.matrix(stats::weights(design, "sampling")))
  weights <- name_weights(frame, c(attr(design, "column"), names(frame)), sampling)
  frame <- weights$frame
  replicates <- as.matrix(stats::weights(design, "analysis"))
  factors <- if (!isTRUE(design$combined.weights)) as.matrix(stats::weights(design, "replication"))
  stored <- design$repweights
  given <- colnames(if (inherits(stored, "repweights_compressed")) stored$weights else stored)
  columns_of <- function(replicates) vapply(seq_len(ncol(replicates)), function(r) {
    column <- if (length(given) == ncol(replicates)) given[r] else ""
    if (column %in% names(frame) && same_numbers(frame[[column]], replicates[, r])) return(column)
    free_name(paste0("replicate_", r), frame)
  }, "")
  names <- if (is.null(factors)) columns_of(replicates) else columns_of(factors)
  combined <- is.null(factors) || !all(names %in% names(frame)) # factors that no columns hold go as full weights
  if (combined) names <- columns_of(replicates)
  new <- !names %in% names(frame)
  frame[names[new]] <- as.data.frame(replicates[, new, drop = FALSE])
  roles <- c(weights$roles, list(replicate_weights = names, combined = combined, scale = design$scale,
                                 rscales = rep_len(design$rscales, ncol(replicates)), mse = isTRUE(design$mse)))
  list(frame = frame, roles = roles, joint = NULL)
}

# ---- the other way: the design object of a frame and roles

# `joint`: joint inclusion probabilities, for pps = "sen_yates_grundy" and "horvitz_thompson".
# `replicates`: full replicate weights, a matrix; or columns of the frame that the roles name, which may be factors.
as_design <- function(frame, roles, joint = NULL, replicates = frame[unlist(roles$replicate_weights)]) {
  if (length(replicates)) return(as_replicate_design(frame, roles, replicates))
  calibrated <- length(roles$poststrata) || length(roles$auxiliary)
  if (calibrated && any(numbers(frame[[roles$weights]]) == 0)) {
    refuse("calibrated weights of 0 have no design here, as the variances of R's survey do not allow for them: estimate in ",
           "Python")
  }
  first <- c(roles$earlier_calibrations, list(roles))[[1]]$base_weights
  drawn <- if (is.null(first)) roles$weights else first
  design <- if (is.null(roles$pps)) sampled_design(frame, roles, drawn) else pps_design(frame, roles, drawn, joint)
  if (calibrated) design <- calibrated_design(design, frame, roles)
  design$variables <- frame
  attr(design, "lonely_psu") <- roles$lonely_psu
  design
}

# Labels go in as numbers, under names of our own: svydesign() pastes labels together, after which some are the same,
# and formulas cannot say every name.
sampled_design <- function(frame, roles, weights) {
  psu <- unlist(roles$psu)
  data <- chances(frame, roles, weights)
  units <- sprintf("unit%d", seq_along(psu))
  data[units] <- lapply(frame[psu], numbered)
  sizes <- stage_sizes(frame[unlist(roles$fpc)], length(psu))
  data[names(sizes)] <- sizes
  design <- in_silence(survey::svydesign(
    ids = if (length(psu)) stats::reformulate(units) else ~1, probs = ~chance, strata = strata_of(roles),
    fpc = if (length(sizes)) stats::reformulate(names(sizes)), data = data,
    nest = length(psu) > 0, check.strata = FALSE # where records are the units, both take long and tell nothing
  ))
  if (length(psu)) names(design$cluster) <- psu
  if (length(sizes)) colnames(design$fpc$popsize)[seq_along(roles$fpc)] <- unlist(roles$fpc)
  with_names(design, frame, roles, weights)
}

# svydesign() prints the numbers that it complains of.
in_silence <- function(work) {
  utils::capture.output(value <- work)
  value
}

numbered <- function(x) match(x, unique(x))

strata_of <- function(roles) if (!is.null(roles$strata)) ~stratum

# Inclusion probabilities and strata, for svydesign().
chances <- function(frame, roles, weights) {
  data <- data.frame(chance = if (is.null(weights)) numbers(frame[[roles$probs]]) else 1 / numbers(frame[[weights]]))
  if (!is.null(roles$strata)) data$stratum <- numbered(frame[[roles$strata]])
  data
}

# The names, and the labels of the strata, that the file has for them.
with_names <- function(design, frame, roles, weights) {
  names(design$allprob) <- c(weights, roles$probs)[1]
  if (!is.null(roles$strata)) {
    labels <- factor(frame[[roles$strata]])
    if (nlevels(labels) == max(design$strata[[1]])) design$strata[[1]] <- labels
    names(design$strata)[1] <- roles$strata
  }
  design
}

# An fpc for every stage, or none, as R wants it: where later stages have none, their populations are infinite.
stage_sizes <- function(sizes, stages) {
  if (!length(sizes)) return(sizes)
  sizes[] <- lapply(sizes, numbers)
  fractions <- all(sizes <= 1)
  if (all(sizes == 1)) sizes[] <- 1 - 1e-13 # to svydesign() neither a size nor a fraction
  if (stages > length(sizes)) sizes[seq(length(sizes) + 1, stages)] <- if (fractions) 0 else Inf
  stats::setNames(sizes, sprintf("size%d", seq_along(sizes)))
}

as_replicate_design <- function(frame, roles, replicates) {
  weights <- if (is.null(roles$weights)) 1 / numbers(frame[[roles$probs]]) else numbers(frame[[roles$weights]])
  design <- suppressWarnings(survey::svrepdesign( # that small weights do not look like weights
    data = frame, weights = weights, repweights = as.data.frame(replicates), type = "other",
    combined.weights = !identical(roles$combined, FALSE), scale = roles$scale, rscales = unlist(roles$rscales), mse = roles$mse
  ))
  if (!is.null(roles$degf)) design$degf <- roles$degf # as R keeps them where calibration is not linear
  attr(design, "column") <- c(roles$weights, roles$probs)[1]
  design
}

pps_design <- function(frame, roles, weights, joint) {
  if (roles$pps == "hajek") refuse("R's survey package has no Hajek variance (pps = \"hajek\")")
  data <- chances(frame, roles, weights)
  data$chance <- pmin(data$chance, 1) # by rounding
  if (roles$pps == "brewer") {
    design <- survey::svydesign(ids = ~1, strata = strata_of(roles), fpc = ~chance, data = data, pps = "brewer")
    return(with_names(design, frame, roles, weights))
  }
  pps <- if (roles$pps == "poisson") survey::poisson_sampling(data$chance) else survey::ppsmat(joint, tolerance = 0)
  variance <- if (roles$pps == "sen_yates_grundy") "YG" else "HT"
  design <- in_silence(survey::svydesign(
    ids = ~1, strata = strata_of(roles), fpc = ~chance, data = data, pps = pps, variance = variance
  ))
  with_names(design, frame, roles, weights)
}

# Computes the vignettes, which take a minute, once: what R CMD build finds are pages of text and pictures.
# The picture of the workbook is page 6 of what KEEP_WORKBOOK=income.xlsx keeps, without its margins:
# soffice --convert-to pdf, pdftoppm -r 90 -f 6 -l 6 -png.
# Run in r_bridge/, with a Python that has surveysynth and this package installed: Rscript data-raw/vignettes.R [name]
library(knitr)

asked <- commandArgs(TRUE)
old <- setwd("vignettes")
Sys.setenv(TZ = "UTC")
for (source in list.files(pattern = "[.]Rmd[.]orig$")) {
  name <- sub("[.]Rmd[.]orig$", "", source)
  if (length(asked) && !name %in% asked) next
  opts_chunk$restore()
  opts_chunk$set(fig.path = paste0(name, "-"), dev = "png", dpi = 96, error = FALSE)
  knit(source, paste0(name, ".Rmd"), quiet = TRUE, envir = new.env(parent = globalenv()))
}
setwd(old)

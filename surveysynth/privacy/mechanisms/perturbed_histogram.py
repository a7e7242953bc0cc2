"""The mechanism that adds Laplace noise to the counts of public bins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ...choices import Kind
from .base import Mechanism


class PerturbedHistogram(Mechanism):
    """Laplace noise in the counts of public bins: see :func:`surveysynth.perturbed_histogram`."""

    name: ClassVar[str] = "perturbed histogram"
    in_r: ClassVar[str] = "perturbed_histogram"
    guarantees: ClassVar[Mapping[Kind, str]] = {
        "strict": (
            "Strict differential privacy, given that there is a release: Laplace noise in the counts of bins that do "
            "not depend on the file; all data sets come from one noisy histogram. The number of records is public: "
            "epsilon holds for files that differ in whether one record is counted in the histogram, 2 epsilon for "
            "files that differ in one record's values."
        )
    }

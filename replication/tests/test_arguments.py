"""The message about a wrong argument names the function that was called."""

import pytest

from replication.risk_efficient.study import consumer_units_study
from replication.tabular.own_file import compare_methods


@pytest.mark.parametrize(
    ("call", "message"),
    [(lambda: compare_methods(None, "y", "x", "x", epsilon=1, cluster="ignore"),
      "compare_methods() got an unexpected keyword argument 'cluster'; did you mean 'clusters'?"),
     (lambda: consumer_units_study(9, dataset=1),
      "consumer_units_study() got an unexpected keyword argument 'dataset'; did you mean 'datasets'?")],
)  # fmt: skip
def test_a_wrong_argument_is_told_of_the_function_that_was_called(call, message):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == message

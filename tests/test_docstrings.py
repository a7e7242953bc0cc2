"""Docstrings of public names: complete, by numpydoc's validation, and their examples print what they say."""

import ast
import doctest
import importlib.util
import inspect
import re
import shutil
import textwrap
from functools import cache, cached_property, reduce
from types import FunctionType

import numpy as np
import pandas as pd
import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate

import surveysynth as ss
from surveysynth.privacy.mechanisms.base import Mechanism

# What a reader would miss: a docstring (GL08), sections in their order (GL07), a summary that ends (SS01, SS03),
# parameters (PR01) that the signature has (PR02), their types (PR04), what is returned (RT01, RT03) or yielded (YD01),
# an example (EX01).  Other findings of numpydoc are taste: "See Also", capitals, where a blank line stands.
ALWAYS = {"GL08", "SS01", "SS03", "PR02"}
COMPLETE = ALWAYS | {"GL07", "PR01", "PR04", "RT01", "RT03", "YD01"}
WITH_EXAMPLE = COMPLETE | {"EX01"}

TRANSFORMS = (ss.LogTransform, ss.AsinhTransform, ss.IdentityTransform)
RISKS = (ss.LipschitzRisk, ss.CountRisk, ss.MarginalRisk, ss.PairwiseRisk)
HOOKS = (ss.Synthesizer, Mechanism, *TRANSFORMS, *RISKS)  # whose methods the package calls, not its user


class Documented(Validator):
    """Of a class the fields that are attributes count as documented; what a subclass is to define has no signature."""

    def __init__(self, obj_name):
        super().__init__(get_doc_object(reduce(getattr, obj_name.split("."), ss)))

    @cached_property
    def signature_parameters(self):
        return () if inspect.isabstract(self.obj) else tuple(n for n in super().signature_parameters if n[0] != "_")

    @cached_property
    def doc_all_parameters(self):
        fields = self._doc_parameters(["Attributes"]) if inspect.isclass(self.obj) else {}
        return {n: said for n, said in fields.items() if n in self.signature_parameters} | super().doc_all_parameters

    def refers(self, name):
        """Whether a parameter is described elsewhere, with its type: "As for :func:`fit`"."""
        return re.search(":(func|class|meth|mod):", " ".join(self.doc_all_parameters[name][1])) is not None


def public():
    """Public names, as they are imported from surveysynth, with what is asked of each."""
    for path in ("", *(f"{n}." for n in ss.__all__ if inspect.ismodule(getattr(ss, n)))):
        module = getattr(ss, path[:-1]) if path else ss
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isroutine(thing) or (inspect.isclass(thing) and issubclass(thing, Exception)):
                yield path + name, COMPLETE if inspect.isclass(thing) else WITH_EXAMPLE
            elif inspect.isclass(thing) and thing.__module__.startswith("surveysynth"):
                yield path + name, WITH_EXAMPLE
                asked = ALWAYS if issubclass(thing, HOOKS) and thing is not ss.Synthesizer else COMPLETE
                yield from ((f"{path}{name}.{method}", asked) for method in methods(thing))


def methods(kind):
    """Public methods and properties of a class that no public class above it has."""
    above = {m for base in kind.__mro__[1:] if base.__name__ in ss.__all__ for m in vars(base)}
    own = {n: v for k in kind.__mro__[::-1] if k.__module__.startswith("surveysynth") for n, v in vars(k).items()}
    kinds = (FunctionType, classmethod, staticmethod, property, cached_property)
    return [n for n, v in own.items() if n[0] != "_" and n not in above and isinstance(v, kinds)]


def named(name):
    """The object of a dotted name."""
    thing = ss
    for part in name.split("."):
        thing = inspect.getattr_static(thing, part) if inspect.isclass(thing) else getattr(thing, part)
    thing = thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing
    return inspect.unwrap(thing.fget if isinstance(thing, property) else getattr(thing, "func", thing))


def raised(thing):
    """Errors that a function itself raises, or a class on construction."""
    made = ("__init__", "__post_init__")
    bodies = [vars(thing)[n] for n in made if n in vars(thing)] if inspect.isclass(thing) else [thing]
    written = [body for body in bodies if inspect.isfunction(body) and body.__code__.co_filename != "<string>"]
    trees = [ast.parse(textwrap.dedent(inspect.getsource(body))) for body in written]
    calls = (node.exc for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Raise))
    return {call.func.id for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_docstrings_say_what_a_reader_needs(name):
    found, said = validate(name, validator_cls=Documented), Documented(name)
    for code, text in found["errors"]:
        referred = code == "PR04" and said.refers(text.split('"')[1])
        assert code not in PUBLIC[name] or referred, f"{name}: {code} {text}"
    if PUBLIC[name] != ALWAYS:
        thing = named(name)
        documented = ", ".join(entry.type for entry in said.doc["Raises"]).split(", ")
        assert raised(thing) <= set(documented), f"{name} raises {raised(thing) - set(documented)}"


@cache
def release():
    """Salaries by field and gender under pseudo posteriors: for examples, so seeded."""
    design = ss.datasets.sdr_sample(seed=1)
    model = ss.FBS("salary ~ field + gender", prior="flat")
    return ss.synthesize(design, model, epsilon=10.8, m=3, mechanism=ss.PseudoPosterior(), seed=1)


@pytest.mark.parametrize("name", [name for name in PUBLIC if ">>>" in (inspect.getdoc(named(name)) or "")])
def test_examples_print_what_they_say(name, folder):
    if name.startswith("r.") and (importlib.util.find_spec("rpy2") is None or shutil.which("R") is None):
        pytest.skip("R or rpy2 is not installed")
    known = {"ss": ss, "np": np, "pd": pd}
    text = inspect.getdoc(named(name))
    if "``release``" in text[text.index("Examples\n--------") :]:
        known |= {"release": release(), "design": ss.datasets.sdr_sample(seed=1)}
    example = doctest.DocTestParser().get_doctest(text, known, name, None, None)
    printed = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=printed.append)
    assert not printed, "".join(printed)

"""surveysynth: publishable tables and microdata from confidential complex-survey files.

The names, which ``__init__.pyi`` lists, are imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

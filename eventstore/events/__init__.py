"""Every event type that Playhead knows, one module per area. Importing the folder registers them all.

A new type is a class in one of these modules, or in a new one: it is found without further mention.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

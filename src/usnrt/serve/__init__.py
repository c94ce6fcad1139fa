"""Models as a service: predictions over HTTP, and a page to play with. Needs ``usnrt[serve]``."""

try:
    from usnrt.serve._app import Limits, create_app
    from usnrt.serve._models import ModelStore
except ImportError as error:
    raise ImportError(f"usnrt.serve needs {error.name}: pip install 'usnrt[serve]'") from error

__all__ = ["Limits", "ModelStore", "create_app"]

"""What the functions of this package take as an array, for type checkers."""
from typing_extensions import Buffer
from typing import Any, Protocol


class SupportsDLPack(Protocol):
    """A CPU tensor of PyTorch, JAX …"""

    def __dlpack__(self, **kwargs: Any) -> Any: ...


Array = Buffer | SupportsDLPack

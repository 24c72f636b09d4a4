"""What the functions of this package take as an array, for type checkers: nothing imports this when a program runs."""
from typing import Any, Protocol

import numpy.typing
from typing_extensions import Buffer

class SupportsDLPack(Protocol):
    """A CPU tensor of PyTorch, JAX …"""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

Array = numpy.typing.NDArray[Any] | Buffer | SupportsDLPack

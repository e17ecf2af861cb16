"""Sizes by name, as BERT's published miniatures have them (Turc et al. 2019, table 1; Devlin et al. 2019)."""

from keras_bert2d.errors import InputError

# Layers and hidden size; heads are 64 wide and the feed-forward network is four times as wide as a layer.
_SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
SIZE_NAMES = tuple(_SIZES)


def size_arguments(name: str) -> dict[str, int]:
    """Returns a named size as arguments of `Bert2DBackbone`.

    Args:
        name: string, one of `SIZE_NAMES`.

    Raises:
        InputError: There is no such size.

    Example:

    >>> size_arguments("mini")
    {'num_layers': 4, 'num_heads': 4, 'hidden_dim': 256, 'intermediate_dim': 1024}
    """
    if name not in _SIZES:
        raise InputError(
            f"There is no such size; the sizes are {', '.join(SIZE_NAMES)}. Received: size={name!r}"
        )
    layers, hidden = _SIZES[name]
    return {
        "num_layers": layers,
        "num_heads": hidden // 64,
        "hidden_dim": hidden,
        "intermediate_dim": 4 * hidden,
    }

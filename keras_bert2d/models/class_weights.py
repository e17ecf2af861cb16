"""The weights of classes, by label or by id, in the order of the ids."""

import math
import numbers
from collections.abc import Mapping, Sequence

from keras_bert2d.errors import InputError


def weights_by_id(
    class_weight: Mapping[str | int, float], labels: Sequence[str] | None, num_classes: int
) -> list[float]:
    """Puts class weights in the order of the label ids.

    Args:
        class_weight: dict of label, or label id, to a number of at least 0. Labels that are left out weigh 1.
        labels: list of strings, or `None` where labels are known by their ids alone.
        num_classes: int.

    Raises:
        InputError: A label is unknown or named twice, or a weight is no such number.

    Example:

    >>> weights_by_id({"NOUN": 0.5, 2: 3}, ["ADJ", "NOUN", "VERB"], 3)
    [1.0, 0.5, 3.0]
    """
    if not isinstance(class_weight, Mapping):
        raise InputError(
            "`class_weight` must be a dict of label, or label id, to a number. "
            f"Received: class_weight={class_weight!r}"
        )
    names = list(labels or ())
    weights, seen = [1.0] * num_classes, set()
    for label, weight in class_weight.items():
        is_id = isinstance(label, numbers.Integral) and 0 <= label < num_classes
        if not is_id and label not in names:
            known = f"{', '.join(names[:40])}{' …' if len(names) > 40 else ''}"
            raise InputError(
                f"`class_weight` must name labels of the model{f', that is {known},' if names else ''} or "
                f"their ids from 0 to {num_classes - 1}. Received: {label!r}"
            )
        if not isinstance(weight, numbers.Real) or not 0 <= weight < math.inf:
            raise InputError(
                f"A class weight must be a number of at least 0. Received: {weight!r} for {label!r}"
            )
        place = int(label) if is_id else names.index(label)
        if place in seen:
            raise InputError(f"`class_weight` must name a label once. Received twice: {names[place]!r}")
        seen.add(place)
        weights[place] = float(weight)
    return weights

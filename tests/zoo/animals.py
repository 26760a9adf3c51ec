"""Every model of the zoo, in the order of the table."""

from __future__ import annotations

from zoo.entry import Animal
from zoo.harder_models import HARDER_MODELS
from zoo.language_models import LANGUAGE_MODELS
from zoo.speech_models import SPEECH_MODELS
from zoo.vision_models import VISION_MODELS
from zoo.written_by_hand import WRITTEN_BY_HAND

__all__ = ["ANIMALS"]

ANIMALS: tuple[Animal, ...] = (*LANGUAGE_MODELS, *VISION_MODELS, *SPEECH_MODELS, *WRITTEN_BY_HAND, *HARDER_MODELS)

"""A model may have no inputs: what is sent to it is little, and nothing breaks."""

from __future__ import annotations

import dataclasses

from aitune.triton.checks_live.bounds import _malformed


def test_a_model_without_inputs_is_sent_a_stranger_only(stage) -> None:
    """There is no input to leave out or to bend."""
    subject = dataclasses.replace(stage.context().subject, inputs=(), input_views={})
    assert [bad.what for bad in _malformed(subject, {})] == ["an input the model does not have"]

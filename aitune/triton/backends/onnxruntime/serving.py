"""``TritonPythonModel``: loads a model once, then answers batches of requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import onnxruntime
import triton_python_backend_utils as pb_utils

from .checks import check
from .completion import complete, default_max_batch_size, is_wanted
from .failures import LoadError
from .plan import Plan
from .sessions import message_of, model_file, open_session
from .settings import read_settings
from .signature import read_signature
from .states import States
from .tensors import Array

__all__ = ["TritonPythonModel"]


class TritonPythonModel:
    """One instance of one model, in a process of its own."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: Any) -> Any:
        """Fill in what the config leaves out; called once per model, before any instance exists."""
        config = auto_complete_model_config.as_dict()
        if is_wanted(config):
            try:
                path = model_file(pb_utils.get_model_dir(), config)
                groups = config.get("instance_group", ())
                kind = "GPU" if any(group.get("kind") == "KIND_GPU" for group in groups) else "CPU"
                session = open_session(path, config, read_settings(config), kind=kind)
                complete(config, read_signature(session), default_size=default_max_batch_size())
            except LoadError as error:
                raise pb_utils.TritonModelException(str(error)) from error
        return auto_complete_model_config

    def initialize(self, args: Mapping[str, str]) -> None:
        """Make the session and refuse a config that does not fit it."""
        try:
            self._load(json.loads(args["model_config"]), args)
        except LoadError as error:
            raise pb_utils.TritonModelException(str(error)) from error
        where = f"ONNX Runtime {onnxruntime.__version__}, {', '.join(self._session.get_providers())}"
        pb_utils.Logger.log_info(f"aitune onnxruntime backend: {args['model_instance_name']} on {where}")

    def execute(self, requests: list[Any]) -> list[Any] | None:
        """Answer a batch; what is wrong with one request is told to that one alone."""
        responses = self._answer(requests)
        if not self._decoupled:
            return responses
        for request, response in zip(requests, responses, strict=True):
            request.get_response_sender().send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None

    def finalize(self) -> None:
        """Let the session go."""
        del self._session

    def _load(self, config: Mapping[str, Any], args: Mapping[str, str]) -> None:
        kind, device = args["model_instance_kind"], int(args["model_instance_device_id"])
        self._settings = read_settings(config)
        path = model_file(f"{args['model_repository']}/{args['model_version']}", config)
        self._session = open_session(path, config, self._settings, kind=kind, device_id=device)
        signature = read_signature(self._session)
        check(config, signature)
        entries = (config.get("sequence_batching") or {}).get("state") or []
        self._states = States(entries) if entries else None
        self._state_outputs = self._states.outputs if self._states else ()
        self._plan = Plan(config, signature)
        self._decoupled = (config.get("model_transaction_policy") or {}).get("decoupled", False)

    def _answer(self, requests: list[Any]) -> list[Any]:
        arrays = [{tensor.name(): tensor.as_numpy() for tensor in request.inputs()} for request in requests]
        if self._states is not None:
            for request, own in zip(requests, arrays, strict=True):
                self._states.resume(request, own)
        responses: list[Any] = [None] * len(requests)
        for group in self._plan.groups(arrays):
            members = [requests[position] for position in group]
            answers = self._answer_group(members, [arrays[position] for position in group])
            for position, answer in zip(group, answers, strict=True):
                responses[position] = answer
        return responses

    def _answer_group(self, requests: Sequence[Any], arrays: Sequence[dict[str, Array]]) -> list[Any]:
        """One run for all; if it fails, one for each, so that a bad request cannot spoil its neighbours."""
        wanted = self._wanted(requests)
        try:
            columns = self._run(arrays, wanted)
        except Exception as error:  # whatever one request makes the model do must not reach the others
            if len(requests) == 1:
                return [_error(message_of(error))]
            return [
                answer
                for request, own in zip(requests, arrays, strict=True)
                for answer in self._answer_group([request], [own])
            ]
        return [
            self._response(request, [column[position] for column in columns], wanted)
            for position, request in enumerate(requests)
        ]

    def _run(self, arrays: Sequence[dict[str, Array]], wanted: tuple[str, ...]) -> list[Sequence[Array | str]]:
        """For each wanted output, and then for each state, the parts of the requests."""
        names = (*wanted, *self._state_outputs)
        if not names:  # to ONNX Runtime no names mean all outputs
            return []
        values = self._session.run(names, self._plan.feeds(arrays), self._settings.run_options)
        return [self._plan.parts(name, value, arrays) for name, value in zip(names, values, strict=True)]

    def _wanted(self, requests: Sequence[Any]) -> tuple[str, ...]:
        """The outputs that any of the requests asks for, in the config's order."""
        outputs = self._plan.outputs
        if len(outputs) == 1:
            return outputs
        asked = {name for request in requests for name in request.requested_output_names()}
        return tuple(name for name in outputs if name in asked)

    def _response(self, request: Any, parts: Sequence[Array | str], wanted: tuple[str, ...]) -> Any:
        for part in parts:
            if isinstance(part, str):
                return _error(part)
        if self._states is not None:
            self._states.keep(request, dict(zip(self._state_outputs, parts[len(wanted) :], strict=True)))
        # More than one output: what another request of the batch asked for is not for this one.
        asked = request.requested_output_names() if len(wanted) > 1 else wanted
        tensors = [pb_utils.Tensor(name, part) for name, part in zip(wanted, parts, strict=False) if name in asked]
        return pb_utils.InferenceResponse(tensors)


def _error(message: str) -> Any:
    return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(message))

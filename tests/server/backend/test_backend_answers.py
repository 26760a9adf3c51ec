"""What the shipped backend answers, on a real server."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from aitune.triton import server_http
from aitune.triton.server import LocalServer

pytestmark = pytest.mark.server

Arrays = dict[str, np.ndarray[Any, Any]]
Ask = Callable[..., Arrays]
AskTogether = Callable[..., list[Arrays | str]]


def f32(*values: Any) -> np.ndarray[Any, Any]:
    """A float32 tensor."""
    return np.array(values, dtype=np.float32)


def executions(client: triton.InferenceServerClient, model: str) -> tuple[int, int]:
    """Inferences and executions so far."""
    row = client.get_inference_statistics(model).model_stats[0]
    return row.inference_count, row.execution_count


def test_every_model_of_the_repository_is_ready(server: LocalServer) -> None:
    """Warm-ups, sequences, ragged inputs, a directory as a model and a missing config all load."""
    assert [row.name for row in server.models() if not row.ready] == []


def test_requests_that_arrive_together_run_as_one(
    client: triton.InferenceServerClient, ask_together: AskTogether
) -> None:
    """Four requests with different rows run once, and each gets its own rows back."""
    before = executions(client, "double")
    requests = [{"x": np.full((rows, 4), rows, dtype=np.float32)} for rows in (1, 2, 1)]
    answers = ask_together("double", requests)
    after = executions(client, "double")
    assert (after[0] - before[0], after[1] - before[1]) == (4, 1)
    for request, answer in zip(requests, answers, strict=True):
        assert isinstance(answer, dict)
        np.testing.assert_array_equal(answer["y"], request["x"] * 2)


def test_a_bad_request_does_not_spoil_its_neighbours(ask_together: AskTogether) -> None:
    """An index outside the table fails its own request alone; the three beside it in the batch are answered."""
    ids = [1, 99, 0, 4]
    answers = ask_together("lookup", [{"ids": np.array([[value]], dtype=np.int64)} for value in ids])
    good = [answer["row"].ravel().tolist() for answer in answers if isinstance(answer, dict)]
    assert good == [[2, 3], [0, 1], [8, 9]]
    assert "onnx runtime error" in str(answers[1])
    assert "out of" in str(answers[1])


def test_too_few_rows_in_an_output_fail_the_request_they_are_missing_for(ask_together: AskTogether) -> None:
    """A model that returns one row for a batch of two answers the first request and not the second."""
    answers = ask_together("shrinking", [{"x": f32([1, 1, 1, 1])}, {"x": f32([0, 2, 2, 2])}])
    answered = [answer for answer in answers if isinstance(answer, dict)]
    assert len(answered) == 1
    assert any("failed to split the output tensor 'y'" in str(answer) for answer in answers)


def test_a_scalar_goes_in_and_comes_out_with_the_configured_dims(ask: Ask) -> None:
    """A rank-0 input is sent as [1], and a rank-0 output comes back as [1]."""
    np.testing.assert_array_equal(ask("scalar", t=f32(21))["m"], f32(42))


def test_a_scalar_output_of_a_batching_model_has_room_for_one_row(ask: Ask) -> None:
    """One row gets the scalar; two rows cannot, and the error says so."""
    np.testing.assert_array_equal(ask("total", x=f32([1, 2, 3, 4]))["m"], f32(10))
    with pytest.raises(triton.InferenceServerException, match="failed to split the output tensor 'm'"):
        ask("total", x=np.ones((2, 4), dtype=np.float32))


def test_different_scalars_in_one_batch_do_not_mix(ask_together: AskTogether) -> None:
    """Two requests that differ in a scalar input are run apart, so that each is scaled by its own."""
    answers = ask_together("scaled", [{"x": f32([1, 1, 1, 1]), "t": f32([value])} for value in (2, 3)])
    assert [answer["y"].tolist() for answer in answers if isinstance(answer, dict)] == [[[2] * 4], [[3] * 4]]


def test_rows_that_disagree_about_a_scalar_are_refused(ask: Ask) -> None:
    """One request whose rows bring two values for one scalar is an error, not a guess."""
    with pytest.raises(triton.InferenceServerException, match="input 't' is a scalar in the model"):
        ask("scaled", x=np.ones((2, 4), dtype=np.float32), t=f32([2], [3])[:, 0].reshape(2, 1))


@pytest.mark.parametrize("words", [["ab", "zwölf"], ["a\0b", "c\0"], ["", "x" * 300]])
def test_strings_come_back_as_they_went_in(ask: Ask, words: list[str]) -> None:
    """Text, zero bytes in it and empty strings survive."""
    sent = np.array([[word.encode() for word in words]], dtype=object)
    np.testing.assert_array_equal(ask("texts", x=sent)["y"], sent)


def test_bytes_that_are_no_text_cannot_come_out(ask: Ask) -> None:
    """ONNX Runtime hands strings to Python as text; what is no UTF-8 is an error of that request, not a crash."""
    with pytest.raises(triton.InferenceServerException, match="utf-8"):
        ask("texts", x=np.array([[b"\xff\xfe", b"ok"]], dtype=object))
    assert ask("texts", x=np.array([[b"still", b"there"]], dtype=object))["y"].tolist() == [[b"still", b"there"]]


def test_every_type_goes_through(ask: Ask) -> None:
    """Twelve numeric types keep their bits."""
    kinds = {"BOOL": "?", "FP16": "e", "FP32": "f", "FP64": "d"}
    for bits in (8, 16, 32, 64):
        kinds |= {f"INT{bits}": f"i{bits // 8}", f"UINT{bits}": f"u{bits // 8}"}
    sent = {f"i{name}": np.array([[0, 1, 100]]).astype(kind) for name, kind in kinds.items()}
    answers = ask("types", **sent)
    assert len(answers) == 12
    for name, array in sent.items():
        np.testing.assert_array_equal(answers["o" + name[1:]], array, strict=True)


def test_no_rows_are_a_request_too(ask: Ask) -> None:
    """A free axis of size 0 gives an output of size 0."""
    assert ask("rows", x=np.zeros((0, 4), dtype=np.float32))["y"].shape == (0, 4)


def test_only_the_outputs_that_were_asked_for_come_back(ask_together: AskTogether) -> None:
    """Three requests in one batch ask for different outputs of the same model."""
    asked = [("a",), ("b",), ("a", "b")]
    answers = ask_together("pair", [{"x": f32([1, 2, 3, 4])}] * 3, asked)
    assert [set(answer) for answer in answers] == [{"a"}, {"b"}, {"a", "b"}]


def test_an_initializer_is_an_optional_input(ask: Ask) -> None:
    """Left out, the model's own value counts; given, the request's."""
    np.testing.assert_array_equal(ask("optional", x=f32([1, 1]))["y"], f32([11, 21]))
    np.testing.assert_array_equal(ask("optional", x=f32([1, 1]), w=f32(0, 5))["y"], f32([1, 6]))


def test_ragged_requests_are_laid_end_to_end_and_cut_apart(ask_together: AskTogether) -> None:
    """Requests of three lengths share a batch; sums follow the batch input, pieces follow the source input."""
    requests = [{"x": np.arange(1, length + 1, dtype=np.float32)[None, :]} for length in (2, 4, 1)]
    answers = ask_together("ragged", requests)
    assert all(isinstance(answer, dict) for answer in answers), answers
    for request, answer in zip(requests, answers, strict=True):
        assert answer["sum"].tolist() == [[request["x"].sum()]]
        np.testing.assert_array_equal(answer["twice"], request["x"] * 2)


def test_sequences_keep_their_states_apart(client: triton.InferenceServerClient) -> None:
    """Two interleaved sequences add up their own numbers, each from the configured initial state."""
    sums: dict[int, list[float]] = {7: [], 8: []}
    for step in range(3):
        for sequence in sums:
            made = triton.InferInput("x", [1, 1], "FP32")
            made.set_data_from_numpy(f32([sequence]))
            answer = client.infer(
                "sequence", [made], sequence_id=sequence, sequence_start=step == 0, sequence_end=step == 2
            )
            sums[sequence].append(float(answer.as_numpy("y")[0, 0]))
    assert sums == {7: [107, 114, 121], 8: [108, 116, 124]}


def test_a_decoupled_model_answers_once_through_a_stream(client: triton.InferenceServerClient) -> None:
    """The decoupled policy, which the C++ backend accepts, is served with one final response."""
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: answers.put(error or result.as_numpy("y")))
    made = triton.InferInput("x", [1, 4], "FP32")
    made.set_data_from_numpy(f32([1, 2, 3, 4]))
    client.async_stream_infer("decoupled", [made])
    np.testing.assert_array_equal(answers.get(timeout=20), f32([2, 4, 6, 8]))
    client.stop_stream()


def test_a_missing_config_is_completed(server: LocalServer) -> None:
    """Dynamic first axes and no config: batches of four, which is Triton's default, and dynamic batching."""
    config = server_http.model_config(server.http, "bare")
    assert config["max_batch_size"] == 4
    assert "dynamic_batching" in config
    assert [entry["dims"] for entry in config["input"] + config["output"]] == [[4], [4]]


def test_the_server_wide_default_batch_size_is_followed(models: Any) -> None:
    """The option that Triton hands to C++ backends only is read from the server's command line."""
    with LocalServer(
        models,
        explicit=True,
        load_models=["bare"],
        extra_args=["--backend-config=onnxruntime,default-max-batch-size=16"],
    ) as own:
        assert server_http.model_config(own.http, "bare")["max_batch_size"] == 16

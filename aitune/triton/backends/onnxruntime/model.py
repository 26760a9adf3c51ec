"""First form: one session per instance, one run per request."""

import json
import os

import onnxruntime
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        path = os.path.join(args["model_repository"], args["model_version"], config["default_model_filename"])
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.outputs = [o["name"] for o in config["output"]] or [o.name for o in self.session.get_outputs()]

    def execute(self, requests):
        responses = []
        for request in requests:
            feeds = {t.name(): t.as_numpy() for t in request.inputs()}
            values = self.session.run(self.outputs, feeds)
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor(n, v) for n, v in zip(self.outputs, values)])
            )
        return responses

"""A language model in one engine, which says how long prompts and tokens take; run by whatever Python has the engine:

    PYTHON benchmarks/language_engine.py own|own8|own32|llama.cpp|openvino|mnn|genai MODEL THREADS

Each line of the input has two numbers, tokens of a prompt and tokens to be written behind it; the answer is a line of
JSON: seconds on the clock and of the processors, and what the process holds of memory, in MB. It imports nothing else
of the benchmarks, so that an environment needs the engine alone. ``MODEL`` is a GGUF file; for ``mnn``, the official
engine, a folder that ``mnn llm convert`` has written; for ``genai``, ONNX Runtime's generate(), one of
``benchmarks.language_genai``. ``llama.cpp-k`` is llama.cpp with another file.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable

LONGEST = 4096
_DRAWN = random.Random(0)


def tokens(count: int) -> list[int]:
    """Others at each call, so that no engine has read them before."""
    return [_DRAWN.randrange(256) for _ in range(count)]


def own(model: str, threads: int, activation_bits: int | None = None) -> Callable[[int, int], None]:
    from MNN.llm.engine.opening import open_model
    from MNN.runtime.config import Config

    decoder = open_model(model).decoder(Config(threads=threads), LONGEST, activation_bits=activation_bits)
    text = decoder.text()

    def generate(prompt: int, new: int) -> None:
        decoder.cut(text, 0)
        logits = decoder.feed(text, tokens(prompt))
        for _ in range(new - 1):
            logits = decoder.feed(text, [int(logits[-1].argmax())])

    return generate


def own8(model: str, threads: int) -> Callable[[int, int], None]:
    """With activations in 8 bits, as llama.cpp and the official engine have them."""
    return own(model, threads, 8)


def own32(model: str, threads: int) -> Callable[[int, int], None]:
    """With activations that are not rounded."""
    return own(model, threads, 32)


def llama(model: str, threads: int) -> Callable[[int, int], None]:
    import numpy as np
    from llama_cpp import Llama, llama_cpp

    held = Llama(model, n_ctx=LONGEST, n_threads=threads, n_threads_batch=threads, n_batch=512, verbose=False)

    def best() -> int:
        pointer = llama_cpp.llama_get_logits_ith(held._ctx.ctx, -1)
        return int(np.ctypeslib.as_array(pointer, (held.n_vocab(),)).argmax())

    def generate(prompt: int, new: int) -> None:
        held.reset()
        held._ctx.kv_cache_clear()
        held.eval(tokens(prompt))
        for _ in range(new - 1):
            held.eval([best()])

    return generate


def openvino(model: str, threads: int) -> Callable[[int, int], None]:
    import numpy as np
    import openvino as ov
    import openvino_genai as genai

    pipeline = genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)
    config = genai.GenerationConfig()
    config.ignore_eos, config.do_sample = True, False

    def generate(prompt: int, new: int) -> None:
        config.max_new_tokens = new
        pipeline.generate(ov.Tensor(np.array([tokens(prompt)], np.int64)), config)

    return generate


def official(model: str, threads: int) -> Callable[[int, int], None]:
    import numpy as np

    import MNN.llm as engine

    held = engine.create(os.path.join(model, "config.json"))
    held.set_config({"thread_num": threads, "backend_type": "cpu"})
    held.load()

    def generate(prompt: int, new: int) -> None:
        held.reset()
        logits = held.forward(tokens(prompt))
        for _ in range(new - 1):
            logits = held.forward([int(np.array(logits.read()).reshape(-1).argmax())])
        np.array(logits.read())

    return generate


def genai(model: str, threads: int) -> Callable[[int, int], None]:
    import numpy as np
    import onnxruntime_genai as og

    config = og.Config(model)
    options = {"intra_op_num_threads": threads, "inter_op_num_threads": 1}
    config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
    held = og.Model(config)

    def generate(prompt: int, new: int) -> None:
        params = og.GeneratorParams(held)
        params.set_search_options(max_length=LONGEST, min_length=LONGEST, do_sample=False)
        generator = og.Generator(held, params)
        generator.append_tokens(np.array([tokens(prompt)], np.int32))
        for _ in range(new):
            generator.generate_next_token()

    return generate


ENGINES = {"own": own, "own8": own8, "own32": own32, "llama.cpp": llama, "llama.cpp-k": llama, "openvino": openvino,
           "mnn": official, "genai": genai}  # fmt: skip


def memory() -> dict[str, int]:
    """What Linux says of this process, in MB."""
    with open("/proc/self/status", encoding="ascii") as file:
        words = dict(line.split(":", 1) for line in file)
    return {ours: int(words[name].split()[0]) >> 10 for ours, name in (("resident", "VmRSS"), ("peak", "VmHWM"))}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # engines print what they like
    engine, model, threads = sys.argv[1:]
    generate = ENGINES[engine](model, int(threads))
    for line in sys.stdin:
        prompt, new = map(int, line.split())
        wall, cpu = time.perf_counter(), time.process_time()
        generate(prompt, new)
        found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, **memory()}
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()

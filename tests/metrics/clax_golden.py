"""The examination of ranks by CLAX on seeded clicks, in clax_examination.json. `python -m tests.metrics.clax_golden` computes it again.

CLAX (clax-models) is a library of click models in JAX. Its position-based model and its loss are fitted in a temporary environment by
maximum likelihood, to the shows and clicks of each item at each rank. Its trainer imports torch, which is not used: an empty module
stands in for it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from types import ModuleType

FILE = Path(__file__).parent / "clax_examination.json"
PINNED = ("clax-models==0.1.1", "flax==0.11.2", "jax==0.7.0", "jaxlib==0.7.0", "optax==0.2.8", "pandas", "progress-table", "rax==0.4.0")
STEPS = 40_000


def make() -> None:
    """Run this file in an environment with CLAX, and store its output beside the counts."""
    with tempfile.TemporaryDirectory(prefix="streammetrics-golden-") as directory:
        venv.create(directory, with_pip=True)
        python = Path(directory) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", PINNED[0]], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PINNED[1:]], check=True)
        done = subprocess.run([python, __file__, "fit"], check=True, capture_output=True, text=True)
    counts = json.loads(FILE.read_text(encoding="utf-8"))["counts"]
    FILE.write_text(json.dumps({"counts": counts, "examination": json.loads(done.stdout)}) + "\n", encoding="utf-8")


def fit() -> list[float]:
    """Return the examination of each rank relative to rank 1, as CLAX fits it."""
    unused = ModuleType("torch.utils.data")
    unused.DataLoader = object  # type: ignore[attr-defined]
    sys.modules.update({"torch": ModuleType("torch"), "torch.utils": ModuleType("torch.utils"), "torch.utils.data": unused})
    import jax  # noqa: PLC0415  these are installed in the temporary environment only
    import jax.numpy as jnp  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415
    import optax  # noqa: PLC0415
    from clax import PositionBasedModel  # noqa: PLC0415
    from flax import nnx  # noqa: PLC0415

    items, ranks, shows, clicks = np.array(json.loads(FILE.read_text(encoding="utf-8"))["counts"]).T
    shape = (2, len(items) // 2)  # two lists of these places: the model treats places apart
    batch = {
        "query_doc_ids": jnp.array(items).reshape(shape),
        "positions": jnp.array(ranks).reshape(shape),
        "clicks": jnp.array(clicks / shows).reshape(shape),
        "mask": jnp.ones(shape, dtype=bool),
    }
    weights = jnp.array(shows / shows.sum()).reshape(shape)
    graph, first = nnx.split(PositionBasedModel(positions=6, query_doc_pairs=16, rngs=nnx.Rngs(0)))
    adam = optax.adam(optax.warmup_cosine_decay_schedule(1e-4, 0.005, 2_000, STEPS))

    def step(_, carried):  # type: ignore[no-untyped-def]
        given, memory = carried
        gradient = jax.grad(lambda each: (nnx.merge(graph, each).compute_loss(batch, aggregate=False) * weights).sum())(given)
        updates, memory = adam.update(gradient, memory)
        return optax.apply_updates(given, updates), memory

    fitted, _ = jax.jit(lambda carried: jax.lax.fori_loop(0, STEPS, step, carried))((first, adam.init(first)))
    found = np.asarray(nnx.merge(graph, fitted).examination.prob({"positions": jnp.arange(1, 6)})).ravel()
    return [float(each) for each in found / found[0]]


if __name__ == "__main__":
    if sys.argv[1:] == ["fit"]:
        print(json.dumps(fit()))
    else:
        make()

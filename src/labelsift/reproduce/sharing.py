"""One GPU for several processes, by NVIDIA's Multi-Process Service: their kernels run at the same time.

Without it they take turns, and runs side by side are no faster than one after the other.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping

import torch

CONTROL = "nvidia-cuda-mps-control"
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
TURNS = "The runs take turns on the GPU, which is no faster than one after the other: "
CLIENT = "import torch; torch.zeros(1, device='cuda')"
PATIENCE = 60  # seconds


@contextlib.contextmanager
def sharing(device: str, say: Callable[[str], None]) -> Iterator[Mapping[str, str]]:
    """What processes need in their environment to share this device; the service stands as long.

    One that the environment names is used. Where none can be had, `say` is told so.
    """
    if device == "cpu" or not torch.cuda.is_available() or PIPES in os.environ:
        yield {}
        return
    if not shutil.which(CONTROL):
        say(f"{TURNS}{CONTROL}, which comes with NVIDIA's driver, is not on the PATH.")
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="mps-", ignore_cleanup_errors=True) as folder:
        where = {PIPES: folder, LOGS: folder}
        client = os.environ | where
        # The service has all GPUs: what CUDA_VISIBLE_DEVICES numbers is then the same for its clients.
        server = {name: value for name, value in client.items() if name != "CUDA_VISIBLE_DEVICES"}
        try:
            works = _succeeds([CONTROL, "-d"], server) and _succeeds([sys.executable, "-c", CLIENT], client)
            if not works:
                say(f"{TURNS}NVIDIA's Multi-Process Service does not work here.")
            yield where if works else {}
        finally:
            _succeeds([CONTROL], server, "quit\n")


def _succeeds(command: list[str], environment: Mapping[str, str], words: str = "") -> bool:
    try:
        done = subprocess.run(
            command,
            env=environment,
            input=words,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0

"""A Jupyter kernel for the code of a submission: confined, limited in time, memory, output; replaced when it dies."""

import ast
import base64
import builtins
import json
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from queue import Empty

import cloudpickle
import zmq
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from nbformat import NotebookNode
from nbformat.v4 import new_output, output_from_msg

import posenc_lib
import wire

MEGABYTE = 2**20
LARGEST_MESSAGE = 64 * MEGABYTE
LARGEST_OUTPUT = 100_000  # characters of a cell that are kept
GRACE = 3  # seconds that an interrupted cell may take to stop
START_LIMIT = 60
RESTARTS = 3

# What a kernel must see of the machine. Nothing else is there: no home, no gradebook, no masters, no other submission.
VISIBLE = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts"]
INSIDE = "/scratch"


@cache
def bubblewrap() -> str | None:
    """The path of a bubblewrap that works here; None if there is none."""
    program = shutil.which("bwrap")
    if program is None:
        return None
    probe = [program, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    return program if subprocess.run(probe, capture_output=True).returncode == 0 else None


def confined_command(command: list[str], sockets: str, memory: int) -> list[str]:
    """``command`` with limited memory and, where bubblewrap works, without network and without the rest of the disk.

    Args:
        command: what to run.
        sockets: the one folder outside that it may write to.
        memory: bytes of address space for each of its processes.
    """
    limits = f"ulimit -v {memory // 1024}; ulimit -f {200 * MEGABYTE // 512}; ulimit -c 0"
    limited = ["sh", "-c", f'{limits}; exec "$@"', "sh"]
    if (program := bubblewrap()) is None:
        return [*limited, *command]
    visible = [*VISIBLE, sys.prefix, sys.base_prefix, str(Path(posenc_lib.__file__).parent)]
    binds = [part for path in dict.fromkeys(visible) for part in ("--ro-bind-try", path, path)]
    environment = {"PATH": "/usr/bin:/bin", "HOME": INSIDE, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    variables = [part for name, value in environment.items() for part in ("--setenv", name, value)]
    disk = ["--size", str(256 * MEGABYTE), "--tmpfs", "/tmp", "--size", str(256 * MEGABYTE), "--tmpfs", INSIDE]
    box = [program, "--unshare-all", "--die-with-parent", "--clearenv", *variables, "--proc", "/proc", "--dev", "/dev"]
    box += [*disk, *binds, "--bind", sockets, sockets, "--chdir", INSIDE]  # what is bound may lie below /tmp
    return [*limited, *box, *command]


class Remote:
    """A function of the submission, called in the submission's own process."""

    def __init__(self, kernel: "ConfinedKernel", name: str):
        self.kernel, self.__name__ = kernel, name

    def __call__(self, *positional, **named):
        """What the function returns. Its errors are raised here under their own names."""
        arguments = base64.b64encode(cloudpickle.dumps((positional, named))).decode()
        return self.kernel.evaluate(f"call(globals(), {self.__name__!r}, {arguments!r})")


class ConfinedKernel:
    """Runs the cells of one submission; use it in a ``with`` statement.

    Args:
        seconds: that a cell or the call of a function may take.
        memory: bytes of address space for each process.
    """

    def __init__(self, seconds: float, memory: int):
        self.seconds, self.memory = seconds, memory
        self.notes: list[str] = []
        self.place = ""  # where in the notebook it is, for the notes
        self.replayed: list[str] = []  # what a new kernel is told to stand where the old one stood
        self.restarts = 0

    def __enter__(self):
        self._start()
        return self

    def __exit__(self, *_):
        self._stop()

    def run(self, source: str) -> list[NotebookNode]:
        """The outputs of a cell."""
        outputs, _, trouble = self._execute(source)
        if trouble:
            outputs.append(new_output("error", ename="Stopped", evalue=trouble, traceback=[trouble]))
        else:
            self.replayed.append(source)
        return outputs

    def look_up(self, name: str):
        """A value or a ``Remote`` function of the submission.

        Raises:
            NameError: if the submission does not define it.
        """
        answer = self._ask(f"look_up(globals(), {name!r})")
        if "value" in answer:
            return wire.unpack(answer["value"])
        if answer.get("function"):
            return Remote(self, name)
        raise NameError(f"{name} is not defined")

    def evaluate(self, expression: str):
        """The value of a function of ``wire`` in the kernel."""
        return wire.unpack(self._ask(expression)["value"])

    def _ask(self, expression: str) -> dict:
        module = "__import__('sys').modules['posenc_wire']"
        _, reply, trouble = self._execute("", {"answer": f"{module}.{expression}"})
        if trouble:
            raise TimeoutError(trouble)
        answer = reply.get("user_expressions", {}).get("answer", {})
        if answer.get("status") == "error":
            kind = getattr(builtins, str(answer.get("ename")), None)
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                kind = type(str(answer.get("ename")), (Exception,), {})
            raise kind(answer.get("evalue"))
        try:
            return dict(json.loads(ast.literal_eval(answer["data"]["text/plain"])))
        except Exception:
            raise TypeError("the answer cannot be read") from None

    def _start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="grade-"))
        sockets, spec = self.folder / "sockets", self.folder / "kernels" / "confined"
        sockets.mkdir()
        spec.mkdir(parents=True)
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        command += ["--HistoryManager.enabled=False", "--InteractiveShell.colors=nocolor"]
        argv = confined_command(command, str(sockets), self.memory)
        described = {"argv": argv, "display_name": "confined", "language": "python", "interrupt_mode": "message"}
        (spec / "kernel.json").write_text(json.dumps(described))
        context = zmq.Context()
        context.setsockopt(zmq.MAXMSGSIZE, LARGEST_MESSAGE)
        self.manager = KernelManager(
            kernel_name="confined",
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(spec.parent)], ensure_native_kernel=False),
            transport="ipc",
            ip=str(sockets / "kernel"),
            connection_file=str(sockets / "kernel.json"),
            context=context,
        )
        scratch = self.folder / "scratch"
        scratch.mkdir()
        self.manager.start_kernel(cwd=str(scratch), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=START_LIMIT)
        load = f"import sys, types; m = types.ModuleType('posenc_wire'); exec({Path(wire.__file__).read_text()!r}, "
        message = self.client.execute(f"{load}m.__dict__); sys.modules['posenc_wire'] = m; del m, types, sys")
        if self._collect(message, START_LIMIT)[1] is None:
            raise RuntimeError("the kernel did not start")

    def _stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.context.destroy(linger=0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _execute(self, source: str, expressions: dict | None = None) -> tuple[list[NotebookNode], dict, str]:
        """Outputs, reply, and what stopped it, if anything did."""
        if self.restarts > RESTARTS:
            return [], {}, f"not run: the process had been replaced {RESTARTS} times"
        message = self.client.execute(
            source, silent=expressions is not None, store_history=False, user_expressions=expressions, allow_stdin=False
        )
        outputs, reply = self._collect(message, self.seconds)
        trouble = ""
        if reply is None and self.manager.is_alive():
            trouble = f"stopped after {self.seconds:g} seconds"
            self.manager.interrupt_kernel()
            more, reply = self._collect(message, GRACE)
            outputs += more
            if reply is None:
                trouble = f"took more than {self.seconds:g} seconds and did not stop when interrupted"
        elif reply is None:
            trouble = "the process ended: it left, crashed or ran out of memory"
        if trouble:
            self.notes.append(f"{self.place}: {trouble}")
        if reply is None:
            self._replace()
        return outputs, reply or {}, trouble

    def _replace(self) -> None:
        """A new kernel that has run every cell but the one that ended the old kernel."""
        self._stop()
        self.restarts += 1
        if self.restarts > RESTARTS:
            return
        self._start()
        for source in self.replayed:
            message = self.client.execute(source, store_history=False, allow_stdin=False)
            self._collect(message, self.seconds)

    def _collect(self, message: str, seconds: float) -> tuple[list[NotebookNode], dict | None]:
        """What a request printed and its reply; None if it ran out of time or its kernel died."""
        outputs, size, cut, idle, reply = [], 0, False, False, None
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if reply is None:
                try:
                    answer = self.client.get_shell_msg(timeout=0.01)
                    reply = answer["content"] if answer["parent_header"].get("msg_id") == message else None
                except Empty:
                    pass
            try:
                news = self.client.get_iopub_msg(timeout=0.05 if reply is None else 1)
            except Empty:
                if reply is not None:
                    break  # the word that it is idle was lost in a flood
                if not self.manager.is_alive():
                    return outputs, None
                continue
            if news["parent_header"].get("msg_id") != message:
                continue
            if news["msg_type"] == "status":
                idle = news["content"]["execution_state"] == "idle"
            elif news["msg_type"] in ("stream", "display_data", "execute_result", "error"):
                output = output_from_msg(news)
                size += len(json.dumps(output))
                if size <= LARGEST_OUTPUT or output.output_type == "error":
                    outputs.append(output)
                elif not cut:
                    cut = True
                    outputs.append(
                        new_output("stream", name="stdout", text="\n[the output was too long; it is cut here]\n")
                    )
            if idle and reply is not None:
                break
        return outputs, reply

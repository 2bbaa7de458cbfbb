"""The first thing that a job's process runs: it takes the shape of a SageMaker container, then becomes the command.

A program by itself (`python -I -S launcher.py ...`), of the standard library and as little of it as will do, since
every start of every job waits for it. Its arguments, in this order:

    CHANNEL  the file descriptor of a stream socket to the server, see below
    ROOT     the job's tree, bound at /opt/ml; "" for a plain start that changes nothing
    CWD      the working directory, as the job sees it
    HOST     this host's name
    HOSTS    what to append to /etc/hosts
    LOCALE   the command's LC_CTYPE, "" for none: this Python has its own way with it (PEP 538), which is not inherited
    COMMAND  what to execute, with its arguments

The socket keeps two promises. The command does not start before the server has written down which process it is: the
launcher waits for a byte, and ends where the server was killed first. And the server knows whether the command started:
the socket closes without a word where it did, else the error comes through it.
"""

# pathlib would cost as much as all the rest.
# ruff: noqa: PTH102, PTH108, PTH115, PTH123, PTH211

import os
import signal
import stat
import sys

MARK_NAME = ".drydock-tree"
MARK = f"/opt/{MARK_NAME}"
"""A link to ROOT in the job's own view: whoever sees it is a process of that tree, whatever its environment says."""

# <linux/sched.h> and <linux/mount.h>; os.unshare is Python 3.12's.
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER = 0x20000, 0x4000000, 0x10000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000


def main(arguments: list[str]) -> None:
    """The process is the command's; where it cannot be, the server was told why."""
    number, root, cwd, host, hosts, locale, *command = arguments
    channel, doing = int(number), "InternalServerError: cannot prepare /opt/ml"
    os.set_inheritable(channel, False)
    try:
        default_signals()
        os.environ.pop("LC_CTYPE", None)
        if locale:
            os.environ["LC_CTYPE"] = locale
        if root:
            enter(root, host, hosts)
        if not os.read(channel, 1):
            os._exit(1)
        doing = f"InternalServerError: cannot enter {cwd}"
        os.chdir(cwd)
        doing = f"AlgorithmError: cannot execute {command[0]!r}"
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(channel, f"{doing}: {error}".encode(errors="replace"))
        os._exit(127)


def default_signals() -> None:
    """No signal is blocked or ignored: both survive an exec, and the server's thread may have done either."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def enter(root: str, host: str, hosts: str) -> None:
    """This process sees root at /opt/ml, its hosts in /etc/hosts, and has host as its name; no other process does.

    Raises:
        OSError: The kernel does not permit it.
    """
    kernel = Kernel()
    kernel.unshare()
    # Before all else: no mount of ours may propagate to the machine.
    kernel.mount("none", "/", "", MS_REC | MS_PRIVATE)
    tree = os.open(root, os.O_RDONLY | os.O_DIRECTORY)  # held open: it may itself lie below /opt
    opt = os.open("/opt", os.O_RDONLY | os.O_DIRECTORY)
    kernel.mount("drydock", "/opt", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    for name in os.listdir(opt):
        if name not in ("ml", MARK_NAME):
            keep(kernel, opt, name)
    os.mkdir("/opt/ml")
    kernel.bind(f"/proc/self/fd/{tree}", "/opt/ml")
    os.symlink(root, MARK)
    name_hosts(kernel, hosts)
    kernel.set_host_name(host)
    os.close(tree)
    os.close(opt)


def keep(kernel: "Kernel", opt: int, name: str) -> None:
    """What the machine has at /opt/name is there in the new /opt too."""
    source, target = f"/proc/self/fd/{opt}/{name}", f"/opt/{name}"
    kind = os.stat(name, dir_fd=opt, follow_symlinks=False).st_mode
    if stat.S_ISLNK(kind):
        os.symlink(os.readlink(source), target)
        return
    if stat.S_ISDIR(kind):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    kernel.bind(source, target)


def name_hosts(kernel: "Kernel", hosts: str) -> None:
    """/etc/hosts is the machine's and then hosts. The file itself has no name: only the mount holds it."""
    draft = "/opt/.hosts"
    with open("/etc/hosts", "rb") as machine, open(draft, "wb") as ours:
        ours.write(machine.read().rstrip(b"\n") + b"\n" + hosts.encode())
    kernel.bind(draft, "/etc/hosts")
    os.unlink(draft)


class Kernel:
    """The system calls that Python has no function for."""

    def __init__(self) -> None:
        import ctypes  # a plain start does not need it

        self._libc = ctypes.CDLL(None, use_errno=True)
        self._errno = ctypes.get_errno

    def unshare(self) -> None:
        """The mounts and the host's name are this process's own.

        Root may do so; another user may where the kernel lets it be root in a user namespace of its own.
        """
        own, user, group = CLONE_NEWNS | CLONE_NEWUTS, os.geteuid(), os.getegid()
        try:
            self._check("unshare", self._libc.unshare(own))
        except PermissionError:
            self._check("unshare", self._libc.unshare(own | CLONE_NEWUSER))
            for name, line in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(line)

    def mount(self, source: str, target: str, kind: str, flags: int, options: str = "") -> None:
        """The file system, or what source is, has been mounted at target."""
        names = (os.fsencode(source), os.fsencode(target), kind.encode())
        self._check(f"mount {target}", self._libc.mount(*names, flags, options.encode()))

    def bind(self, source: str, target: str) -> None:
        """What source is, with all that is mounted in it, is at target too."""
        self.mount(source, target, "", MS_BIND | MS_REC)

    def set_host_name(self, name: str) -> None:
        """gethostname() says name."""
        self._check("sethostname", self._libc.sethostname(name.encode(), len(name.encode())))

    def _check(self, what: str, result: int) -> None:
        if result != 0:
            number = self._errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main(sys.argv[1:])

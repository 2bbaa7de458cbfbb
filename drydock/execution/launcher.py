"""Run the command of one host of a job: prepare /opt/ml and the host name, start the command, and record its exit code.

This is a stand-alone program (`python -I -S launcher.py ...`), the first one in a host's process. It imports as little
of the standard library as possible, since every start of a job waits for these imports. Its arguments, in this order:

    SOCKET   file descriptor of a stream socket to the server, see below
    ROOT     the folder of the host's files (its tree), to be mounted at /opt/ml; "" to mount nothing
    CWD      the working directory, as the job sees it
    HOST     name of this host
    HOSTS    lines to append to /etc/hosts
    LOCALE   the command's LC_CTYPE, "" for none; the launcher's Python sets its own (PEP 538)
    EXIT     file to write the command's exit code to
    COMMAND  the command to execute, with its arguments

The launcher is the command's parent, in the same process group, and runs until the command ends. Only a parent gets an
exit code from the system. So the exit code is recorded even if the command ends while the server is down. It is not
recorded if the launcher got one of END_SIGNALS, even if the command handles this signal. If SIGKILL ended
the command alone (the system was out of memory), the record says that the command did not end by itself. The launcher
exits with the command's exit code.

The socket has two purposes. First, the command does not start before the server has stored the process's id: the
launcher waits for one byte, and exits if the server is killed before it sends that byte. Second, the server learns
whether the command started: if it did, the socket is closed without data; if not, the socket has the error.
"""

# The imports of pathlib and contextlib would take longer than all other imports together.
# ruff: noqa: PTH102, PTH108, PTH115, PTH119, PTH120, PTH123, PTH211, SIM105

import os
import signal
import stat
import sys
import time

TREE_LINK_NAME = ".drydock-tree"
TREE_LINK = f"/opt/{TREE_LINK_NAME}"
"""A link to ROOT that only the job's processes see. So drydock recognizes these processes even if their environment
variables were changed."""

# From <linux/sched.h> and <linux/mount.h>; os.unshare is new in Python 3.12.
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER = 0x20000, 0x4000000, 0x10000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000

# Signals by which the server or the system ends a process group.
END_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}


def main(arguments: list[str]) -> None:
    """Run the command. If it cannot be started, report the reason to the server."""
    descriptor, root, cwd, host, hosts, locale, exit_file, *command = arguments
    server_socket, problem = int(descriptor), "InternalServerError: cannot prepare /opt/ml"
    os.set_inheritable(server_socket, False)
    try:
        # The folder is opened before the mounts, which may hide it.
        exit_folder = os.open(os.path.dirname(exit_file), os.O_RDONLY | os.O_DIRECTORY)
        os.environ.pop("LC_CTYPE", None)
        if locale:
            os.environ["LC_CTYPE"] = locale
        if root:
            create_view(root, host, hosts)
        if not os.read(server_socket, 1):
            os._exit(1)
        problem = f"InternalServerError: cannot enter {cwd}"
        os.chdir(cwd)
        problem = "InternalServerError: cannot start a process"
        # Signals are blocked until parent and child have their own handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        if child := os.fork():
            os.close(server_socket)
            os._exit(wait_for_exit(child, exit_folder, os.path.basename(exit_file)))
        problem = f"AlgorithmError: cannot execute {command[0]!r}"
        reset_signals()
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(server_socket, f"{problem}: {error}".encode(errors="replace"))
        os._exit(127)


def wait_for_exit(child: int, folder: int, name: str) -> int:
    """Wait for the end of the command, and return its exit code, or 128 + N if signal N ended it.

    The exit code is also written to a file, unless the launcher has received one of END_SIGNALS.

    Args:
        child: The command's process id.
        folder: Descriptor of the file's folder.
        name: The file's name.
    """
    received_signals: list[int] = []
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        is_end_signal = number in END_SIGNALS
        signal.signal(
            number, (lambda received, _: received_signals.append(received)) if is_end_signal else signal.SIG_IGN
        )
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    result = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = result if result >= 0 else 128 - result
    if not received_signals:
        try:
            record_exit(code, result != -signal.SIGKILL, folder, name)
        except OSError:
            pass  # the disk is full; a running server gets the code from the launcher's own exit
    return code


def record_exit(code: int, ended_by_itself: bool, folder: int, name: str) -> None:
    """Write the exit code, the time, and whether the command ended by itself, to a file atomically.

    Raises:
        OSError: The disk is full or not writable. A retry can help.
    """
    new_name = f"{name}.new"
    file = os.open(new_name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=folder)
    try:
        content = f'{{"exit_code": {code}, "ended_at": {time.time()}, "by_itself": {str(ended_by_itself).lower()}}}'
        os.write(file, content.encode())
    finally:
        os.close(file)
    os.rename(new_name, name, src_dir_fd=folder, dst_dir_fd=folder)


def reset_signals() -> None:
    """Unblock all signals and restore their default actions. Otherwise the command inherits the server's settings."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def create_view(root: str, host: str, hosts: str) -> None:
    """Give this process its own view of the machine: root at /opt/ml, more lines in /etc/hosts, and a host name.

    Raises:
        OSError: The kernel does not permit it. A retry cannot help.
    """
    kernel = Kernel()
    kernel.unshare()
    # First make all mounts private, so that the later ones do not appear on the machine.
    kernel.mount("none", "/", "", MS_REC | MS_PRIVATE)
    tree_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)  # opened before the mount: the tree may be below /opt
    opt_fd = os.open("/opt", os.O_RDONLY | os.O_DIRECTORY)
    kernel.mount("drydock", "/opt", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    for name in os.listdir(opt_fd):
        if name not in ("ml", TREE_LINK_NAME):
            add_to_opt(kernel, opt_fd, name)
    os.mkdir("/opt/ml")
    kernel.bind(f"/proc/self/fd/{tree_fd}", "/opt/ml")
    os.symlink(root, TREE_LINK)
    append_hosts(kernel, hosts)
    kernel.set_host_name(host)
    os.close(tree_fd)
    os.close(opt_fd)


def add_to_opt(kernel: "Kernel", opt_fd: int, name: str) -> None:
    """Make the machine's /opt/name visible in the new /opt. opt_fd is a descriptor of the machine's /opt."""
    source, target = f"/proc/self/fd/{opt_fd}/{name}", f"/opt/{name}"
    mode = os.stat(name, dir_fd=opt_fd, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(source), target)
        return
    if stat.S_ISDIR(mode):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    kernel.bind(source, target)


def append_hosts(kernel: "Kernel", hosts: str) -> None:
    """Append lines to this process's /etc/hosts: mount a longer copy over it, and then delete the copy's own name."""
    copy = "/opt/.hosts"
    with open("/etc/hosts", "rb") as original, open(copy, "wb") as target:
        target.write(original.read().rstrip(b"\n") + b"\n" + hosts.encode())
    kernel.bind(copy, "/etc/hosts")
    os.unlink(copy)


class Kernel:
    """System calls that Python has no function for."""

    def __init__(self) -> None:
        import ctypes  # only needed to mount something

        self._libc = ctypes.CDLL(None, use_errno=True)
        self._errno = ctypes.get_errno

    def unshare(self) -> None:
        """Give this process its own mounts and host name.

        Root may do so. Another user may do so if the kernel lets this user create a user namespace.
        """
        namespaces, user, group = CLONE_NEWNS | CLONE_NEWUTS, os.geteuid(), os.getegid()
        try:
            self._check("unshare", self._libc.unshare(namespaces))
        except PermissionError:
            self._check("unshare", self._libc.unshare(namespaces | CLONE_NEWUSER))
            for name, line in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(line)

    def mount(self, source: str, target: str, fs_type: str, flags: int, options: str = "") -> None:
        """Mount `source`, a file system, a file or a folder, at `target`."""
        names = (os.fsencode(source), os.fsencode(target), fs_type.encode())
        self._check(f"mount {target}", self._libc.mount(*names, flags, options.encode()))

    def bind(self, source: str, target: str) -> None:
        """Bind-mount a file or folder at `target`, with everything that is mounted in it."""
        self.mount(source, target, "", MS_BIND | MS_REC)

    def set_host_name(self, name: str) -> None:
        """Set the name that gethostname() returns."""
        self._check("sethostname", self._libc.sethostname(name.encode(), len(name.encode())))

    def _check(self, call: str, result: int) -> None:
        if result != 0:
            error_number = self._errno()
            raise OSError(error_number, f"{call}: {os.strerror(error_number)}")


if __name__ == "__main__":
    main(sys.argv[1:])

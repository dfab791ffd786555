"""Attempts that the sandbox refuses. Each is made on a copy first, where it has to work: that is the control.

Writes `data/refused-GROUP.json`: attempt -> [outcome of the control, outcome of the attempt].
"""

import ctypes
import errno
import json
import os
import shutil
import socket
import subprocess
import sys

if os.getuid() == 0 or not os.path.exists("/run/longhaul/init"):
    # Outside the sandbox some of this would work: it sets the clock, for one.
    sys.exit("only inside the sandbox")
GROUP = sys.argv[1]
HOME = os.environ.get("HIDDEN_HOME", "@HOME@")
libc = ctypes.CDLL(None, use_errno=True)
outcomes = {}


def outcome(act, *args):
    try:
        act(*args)
        return "done"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    except subprocess.CalledProcessError as error:
        return "refused: " + error.stderr.strip().splitlines()[-1][:160] if error.stderr.strip() else "refused"


def attempt(name, control, act):
    outcomes[name] = [outcome(control), outcome(act)]


def checked(number):
    if number < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def git(folder, *args):
    env = dict(os.environ, GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@b")
    subprocess.run(["git", "-c", "safe.directory=*", "-C", folder, *args], check=True, capture_output=True, text=True, env=env)


def append(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as file:
        file.write(b"\n")


def replace_by_link(path):
    os.symlink("/etc/passwd", path + ".link")
    os.rename(path + ".link", path)


WAYS = {
    "append": append,
    "delete": lambda path: shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path),
    "move": lambda path: os.rename(path, path + ".moved"),
    "chmod": lambda path: os.chmod(path, 0o777),
    "link": replace_by_link,
    "times": lambda path: os.utime(path, (1, 1)),
}


def repository():
    project = os.getcwd()
    there = ["config", "HEAD", "index", "refs/heads/main", "logs/HEAD", "info/attributes", "info/exclude", "objects", "refs"]
    new = [
        "hooks/pre-commit", "hooks/post-checkout", "objects/info/alternates", "packed-refs", "worktrees/x/gitdir",
        "modules/x/config", "shallow", "config.worktree", "refs/replace/" + "0" * 40, "info/grafts", "info/sparse-checkout",
        "index.lock", "MERGE_HEAD", "refs/heads/other", "refs/tags/v1", "refs/notes/commits", "commondir",
    ]
    for number, target in enumerate(there):
        for way, act in WAYS.items():
            if way in ("append", "link") and target in ("objects", "refs"):
                continue
            copy = "/tmp/copy-%d-%s" % (number, way)
            shutil.copytree(".git", copy + "/.git")
            subprocess.run(["chmod", "-R", "u+w", copy], check=True)
            attempt("%s .git/%s" % (way, target), lambda: act(copy + "/.git/" + target), lambda: act(project + "/.git/" + target))
            shutil.rmtree(copy, ignore_errors=True)
    copy = "/tmp/copy-new"
    shutil.copytree(".git", copy + "/.git")
    subprocess.run(["chmod", "-R", "u+w", copy], check=True)
    for target in new:
        attempt("make .git/" + target, lambda: append(copy + "/.git/" + target), lambda: append(project + "/.git/" + target))
    for way in ["delete", "move", "chmod"]:
        attempt(way + " .git", lambda: WAYS[way](copy + "/.git"), lambda: WAYS[way](project + "/.git"))
        os.path.exists(copy) and shutil.rmtree(copy)
        shutil.copytree(".git", copy + "/.git")
    os.makedirs("/tmp/beside")
    attempt("hard link out of .git", lambda: os.link(copy + "/.git/config", "/tmp/beside/c"), lambda: os.link(".git/config", "stolen"))
    attempt("hard link into .git", lambda: os.link(copy + "/.git/HEAD", copy + "/.git/x"), lambda: os.link("init.sh", ".git/x"))
    attempt("exchange .git", lambda: exchange(copy + "/.git", "/tmp/beside"), lambda: exchange(".git", "data"))
    attempt("move the project", lambda: os.rename("/tmp/copy-new", "/tmp/moved"), lambda: os.rename(project, project + "-moved"))


def exchange(one, other):
    checked(libc.renameat2(-100, one.encode(), -100, other.encode(), 2))


def commands():
    project = os.getcwd()
    lines = {
        "amend": "commit --amend --allow-empty -m other",
        "commit": "commit --allow-empty -m mine",
        "stage": "add --all --force .",
        "reset": "reset --soft HEAD~0",
        "hide a change": "update-index --assume-unchanged feature_list.json",
        "skip a file": "update-index --skip-worktree feature_list.json",
        "untrack": "rm -r --cached --quiet feature_list.json",
        "branch": "branch other",
        "move the branch": "update-ref refs/heads/main HEAD",
        "delete the branch": "update-ref -d refs/heads/main",
        "detach": "checkout --quiet --detach",
        "orphan": "symbolic-ref HEAD refs/heads/none",
        "tag": "tag v1",
        "note": "notes add -m note",
        "replace": "replace --graft HEAD HEAD",
        "configure a hook": "config core.hooksPath /tmp",
        "configure a monitor": "config core.fsmonitor /bin/true",
        "configure a filter": "config filter.x.clean /bin/true",
        "configure an alias": "config alias.add !true",
        "configure another folder": "config core.worktree /tmp",
        "add a remote": "remote add evil /tmp",
        "add a worktree": "worktree add --detach /tmp/tree",
        "collect garbage": "gc --prune=now --quiet",
        "expire": "reflog expire --expire=now --all",
        "stash": "stash push --include-untracked --quiet",
        "sparse": "sparse-checkout set nothing",
    }
    for name, line in lines.items():
        copy = "/tmp/clone"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.rmtree("/tmp/tree", ignore_errors=True)
        shutil.copytree(".", copy, symlinks=True, ignore=shutil.ignore_patterns("data", "*control-*", "*.old", "changed-*", "second-*"))
        open(copy + "/new", "w").close()
        attempt("git: " + name, lambda: git(copy, *line.split()), lambda: git(project, *line.split()))


def host():
    hidden = {
        "the store": "longhaul.db", "the evidence": "blobs", "the locks": "locks", "the work folders": "work",
        "the note of models": "embedders.json",
    }
    ways = {
        "read": lambda path: os.stat(path),
        "list": lambda path: os.listdir(os.path.dirname(path)),
        "write": lambda path: append(path + "-x") if os.path.isdir(os.path.dirname(path)) else os.stat(path),
    }
    doors = {"": HOME, "through the first process": "/proc/1/root" + HOME, "upwards": "../home"}
    for what, name in hidden.items():
        for way, act in ways.items():
            for door, place in doors.items():
                control = "/tmp/home/" + name
                append(control)
                attempt(" ".join([way, what, door]), lambda: act(control), lambda: act(os.path.join(place, name)))
    os.symlink(HOME, "data/way-out")
    attempt("through a link", lambda: os.listdir("data/.."), lambda: os.listdir("data/way-out/"))
    os.unlink("data/way-out")
    for place in ["/usr/bin/python3", "/etc/passwd", "/run/longhaul/init", "/proc/sys/kernel/core_pattern", "/dev/sda", "/dev/kmsg", "/dev/mem"]:
        attempt("write " + place, lambda: append("/tmp/x/y"), lambda: append(place))


def clock():
    class Time(ctypes.Structure):
        _fields_ = [("seconds", ctypes.c_long), ("rest", ctypes.c_long)]

    now = Time(1, 0)
    read = Time()
    look = lambda: checked(libc.clock_gettime(0, ctypes.byref(read)))
    attempt("clock_settime", look, lambda: checked(libc.clock_settime(0, ctypes.byref(now))))
    attempt("settimeofday", look, lambda: checked(libc.settimeofday(ctypes.byref(now), None)))
    attempt("stime by date", look, lambda: subprocess.run(["date", "-s", "2001-01-01"], check=True, capture_output=True, text=True))
    attempt("the hardware clock", look, lambda: os.open("/dev/rtc0", os.O_RDWR))
    attempt("the kernel's clock source", look, lambda: append("/sys/devices/system/clocksource/clocksource0/current_clocksource"))
    attempt("a time of its own", look, lambda: (checked(libc.unshare(0x80)), append("/proc/self/timens_offsets")))
    attempt("the host's name", lambda: os.uname(), lambda: socket.sethostname("evil") or checked(-1 if os.uname().nodename == "evil" else 0))


def processes():
    browsers = [pid for pid in os.listdir("/proc") if pid.isdigit() and b"chrom" in open("/proc/%s/cmdline" % pid, "rb").read()]
    attempt("see the browser", lambda: os.stat("/proc/self"), lambda: os.stat("/proc/" + (browsers or ["no-browser"])[0]))
    attempt("the browser's profile", lambda: os.listdir("/tmp"), lambda: os.stat("/tmp/longhaul-browser"))
    attempt("write into the first process", lambda: open("/proc/self/mem", "rb").close(), lambda: open("/proc/1/mem", "r+b").close())
    attempt("the first process's descriptors", lambda: os.listdir("/proc/self/fd"), lambda: os.listdir("/proc/1/fd"))
    attempt("mount over .git", lambda: os.stat(".git"), lambda: checked(libc.mount(b"/tmp", b".git", None, 4096, None)))
    attempt("unmount .git", lambda: os.stat(".git"), lambda: checked(libc.umount2(b".git", 2)))
    attempt("another mount namespace", lambda: os.stat(".git"), lambda: checked(libc.unshare(0x00020000)))
    attempt("a user of its own", lambda: os.getuid(), lambda: checked(libc.unshare(0x10000000)))
    attempt("become root", lambda: os.setuid(os.getuid()), lambda: os.setuid(0))
    attempt("give a file to root", lambda: append("data/mine") or os.chown("data/mine", os.getuid(), -1), lambda: os.chown("data/mine", 0, 0))
    attempt("a device", lambda: os.mkfifo("/tmp/pipe"), lambda: os.mknod("data/device", 0o60600, os.makedev(8, 0)))
    folder = "/run/longhaul/app/"
    attempt("remove the application's socket", lambda: append("/tmp/s/app.sock") or os.unlink("/tmp/s/app.sock"), lambda: os.unlink(folder + "app.sock"))
    attempt("replace the application's socket", lambda: append("/tmp/s/x"), lambda: replace_by_link(folder + "app.sock"))
    attempt("another socket beside it", lambda: append("/tmp/s/y"), lambda: append(folder + "other.sock"))
    own = int(os.environ.get("PORT", "8000"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        attempt("a port of the host", lambda: socket.create_connection(("127.0.0.1", port), 2), lambda: socket.create_connection(("127.0.0.1", @PORT@), 2))
    attempt("the outside", lambda: own, lambda: socket.create_connection(("192.0.2.1", 80), 2))
    attempt("a name", lambda: socket.getaddrinfo("localhost", 80), lambda: socket.getaddrinfo("example.org", 80))


groups = {"repository": repository, "commands": commands, "host": host, "clock": clock, "processes": processes}
try:
    groups[GROUP]()
except BaseException as error:  # told through the same file, as nobody sees our output
    line = error.__traceback__.tb_next and error.__traceback__.tb_next.tb_lineno
    outcomes["the script itself, at line %s" % line] = [repr(error), "done"]
with open("data/refused-%s.json" % GROUP, "w") as file:
    json.dump(outcomes, file, indent=1)
print(GROUP, len(outcomes), "attempts")

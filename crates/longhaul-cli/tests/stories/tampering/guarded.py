"""Tampers with each guarded file in one way, named by the first argument, and with a control file in the same way.

The control must come out changed: a method that changes nothing would prove nothing. Prints one JSON object.
"""

import json
import mmap
import os
import shutil
import socket
import sys

GUARDED = ["feature_list.json", "feature_checks.json", "progress.json", "progress.md"]
METHODS = {}


def method(act):
    METHODS[act.__name__.replace("_", "-")] = act
    return act


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


@method
def flip_passes(path):
    write(path, read(path).replace(b"false", b"true") + b" ")


@method
def flip_one_word_in_place(path):
    size = os.stat(path).st_size
    with open(path, "r+b") as file:
        file.seek(size // 2)
        file.write(b"#")


@method
def keep_size_and_times(path):
    before = os.stat(path)
    write(path, b"x" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@method
def times_of_the_future(path):
    write(path, b"[]")
    os.utime(path, (4102444800, 4102444800))


@method
def times_before_the_epoch(path):
    write(path, b"[]")
    os.utime(path, (-10, -10))


@method
def map_into_memory(path):
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        pages[0:1] = b"?"


@method
def empty(path):
    write(path, b"")


@method
def truncate_to_one_byte(path):
    os.truncate(path, 1)


@method
def append_a_line(path):
    with open(path, "ab") as file:
        file.write(b"\n")


@method
def append_another_document(path):
    with open(path, "ab") as file:
        file.write(b'\n{"passes": true}\n')


@method
def grow_to_900_mib(path):
    os.truncate(path, 900 * 1024 * 1024)


@method
def delete(path):
    os.unlink(path)


@method
def move_away(path):
    os.rename(path, path + ".old")


@method
def move_another_over(path):
    write("other.tmp", b"[]")
    os.rename("other.tmp", path)


@method
def exchange_with_another_guarded_file(path):
    other = "feature_checks.json" if path.startswith("progress") else "progress.json"
    write(path, read(other) + b" ")


@method
def link_to_nothing(path):
    os.unlink(path)
    os.symlink("/nowhere/at/all", path)


@method
def link_to_dev_null(path):
    os.unlink(path)
    os.symlink("/dev/null", path)


@method
def link_to_dev_zero(path):
    os.unlink(path)
    os.symlink("/dev/zero", path)


@method
def link_to_an_exact_copy(path):
    shutil.copyfile(path, "copy-" + path)
    os.unlink(path)
    os.symlink("copy-" + path, path)


@method
def link_to_itself(path):
    os.unlink(path)
    os.symlink(path, path)


@method
def link_into_the_repository(path):
    os.unlink(path)
    os.symlink(".git/config", path)


@method
def hard_link_beside(path):
    os.link(path, "second-" + path)


@method
def hard_link_to_a_changed_file(path):
    write("changed-" + path, read(path) + b" ")
    os.unlink(path)
    os.link("changed-" + path, path)


@method
def folder(path):
    os.unlink(path)
    os.mkdir(path)


@method
def folder_without_permission(path):
    os.unlink(path)
    os.makedirs(path + "/inner")
    write(path + "/inner/file", b"x")
    os.chmod(path + "/inner", 0)
    os.chmod(path, 0)


@method
def folder_without_bottom(path):
    os.unlink(path)
    os.mkdir(path)
    at = os.open(path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)


@method
def pipe(path):
    os.unlink(path)
    os.mkfifo(path)


@method
def socket_file(path):
    os.unlink(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)


@method
def no_permission(path):
    os.chmod(path, 0)


@method
def every_permission(path):
    os.chmod(path, 0o777)


@method
def executable(path):
    os.chmod(path, 0o755)


@method
def set_user_id(path):
    os.chmod(path, 0o4755)


@method
def line_ends_of_another_system(path):
    write(path, read(path).replace(b"\n", b"\r\n"))


@method
def byte_order_mark(path):
    write(path, b"\xef\xbb\xbf" + read(path))


@method
def another_encoding(path):
    write(path, read(path).decode().encode("utf-16"))


@method
def zero_width_character(path):
    content = read(path)
    write(path, content[:9] + "\u200b".encode() + content[9:])


@method
def zero_bytes(path):
    write(path, read(path) + b"\0\0")


@method
def not_text(path):
    write(path, b"\xff\xfe\xfd")


@method
def brackets_without_end(path):
    write(path, b"[" * 200_000)


@method
def keys_twice(path):
    write(path, read(path).replace(b'"passes": false', b'"passes": false, "passes": true') + b"\t")


@method
def through_proc(path):
    with open("/proc/self/cwd/" + path, "ab") as file:
        file.write(b" ")


@method
def through_an_old_descriptor(path):
    with open(path, "r+b") as file:
        os.rename(path, path + ".moved")
        os.rename(path + ".moved", path)
        file.write(b"*")


def state(path):
    found = os.lstat(path) if os.path.lexists(path) else None
    if found is None:
        return None
    content = b""
    if os.path.isfile(path) and not os.path.islink(path) and found.st_mode & 0o400 and found.st_size < 1 << 20:
        content = read(path)
    return (found.st_mode, found.st_size, found.st_nlink, content)


name = sys.argv[1]
if name == "--list":
    print(json.dumps(sorted(METHODS)))
    sys.exit()
act = METHODS[name]
# The control looks like the list and is nobody's.
control = "control-" + name
shutil.copyfile("feature_list.json", control)
before = state(control)
act(control)
assert state(control) != before, "the control came out unchanged: this method proves nothing"
for path in GUARDED:
    act(path)
print("tampered with", len(GUARDED))

"""What provider host really made and removed: the kernel tells of each directory of a sandbox, also of one that nobody has on record.

    truth = HostTruth(path of [host] sandboxes)      before the first sandbox
    truth.living()                                   {instance id: its Workspace, None while it is half made}
    truth.ever_made()                                how many there were
    truth.violations(owners)                         of the rules of one sandbox a user; owners: {instance id: user}"""

import contextlib
import ctypes
import os
import struct

IN_CREATE, IN_DELETE, IN_Q_OVERFLOW = 0x100, 0x200, 0x4000
HEAD = struct.Struct("iIII")


class HostTruth:
    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert fd >= 0 and libc.inotify_add_watch(fd, path.encode(), IN_CREATE | IN_DELETE) >= 0, os.strerror(ctypes.get_errno())
        self.path, self.events = path, os.fdopen(fd, "rb", buffering=0)
        self.history = []      # (IN_CREATE or IN_DELETE, instance id), as it happened

    def read(self):
        """Takes in what has happened since."""
        while True:
            chunk = self.events.read(65536)
            if not chunk:
                return self.history
            at = 0
            while at < len(chunk):
                _, mask, _, n = HEAD.unpack_from(chunk, at)
                assert not mask & IN_Q_OVERFLOW, "more happened than the kernel kept"
                at += HEAD.size
                self.history.append((mask & (IN_CREATE | IN_DELETE), chunk[at:at + n].rstrip(b"\0").decode()))
                at += n

    def living(self):
        out = {}
        for iid in os.listdir(self.path):
            out[iid] = None
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                with open("%s/%s/info" % (self.path, iid), encoding="utf-8") as f:
                    out[iid] = f.read()
        return out

    def ever_made(self):
        return len({iid for what, iid in self.read() if what == IN_CREATE})

    def violations(self, owners):
        out, there, made = [], {}, set()
        for what, iid in self.read():
            owner = owners.get(iid)
            if what == IN_DELETE:
                there.pop(iid, None)
                continue
            if iid in made:
                out.append("%s was made twice" % iid)
            if owner is None:
                out.append("%s was nobody's" % iid)
            out += ["%s had %s and %s" % (owner, other, iid) for other, its in there.items() if its == owner is not None]
            made.add(iid)
            there[iid] = owner
        return out

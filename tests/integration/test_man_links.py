"""The links to the manual pages that set-up makes for the normal instance and takes away again."""

import os
import subprocess

LIB = os.path.join(os.path.dirname(__file__), "..", "..", "contrib", "lib")
SCRIPT = "set -euo pipefail; . %s/common.sh; . %s/man.sh; prefix=$1/opt man=$1/man; shift; for f; do $f; done" % (LIB, LIB)
PAGES = ("man5/paddock.ini.5", "man8/paddock-api.8", "man8/paddockctl.8")


def run(root, *functions):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PADDOCK_")}
    return subprocess.run(["bash", "-c", SCRIPT, "bash", str(root), *functions], env=env, check=True, capture_output=True, text=True).stderr


def installed(root):
    for page in PAGES:
        path = root / "opt/share/man" / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page)
    (root / "man/man8").mkdir(parents=True)


def there(root):
    return {str(p.relative_to(root / "man")) for p in (root / "man").rglob("*") if p.is_symlink() or p.is_file()}


def test_pages_are_linked_and_taken_away(tmp_path):
    installed(tmp_path)
    assert run(tmp_path, "man_link", "man_link") == "" and there(tmp_path) == set(PAGES)
    assert [(tmp_path / "man" / page).read_text() for page in PAGES] == list(PAGES)
    run(tmp_path, "man_unlink", "man_unlink")
    assert there(tmp_path) == set()


def test_what_is_not_ours_stays(tmp_path):
    """A file, and a link that leads nowhere of ours."""
    installed(tmp_path)
    (tmp_path / "man/man8/paddockctl.8").write_text("theirs")
    (tmp_path / "man/man8/paddock-api.8").symlink_to("nowhere")
    said = run(tmp_path, "man_link", "man_unlink")
    assert "man8/paddockctl.8 is not ours" in said and "man8/paddock-api.8 is not ours" in said
    assert there(tmp_path) == {"man8/paddockctl.8", "man8/paddock-api.8"}
    assert (tmp_path / "man/man8/paddockctl.8").read_text() == "theirs" and os.readlink(tmp_path / "man/man8/paddock-api.8") == "nowhere"

"""What people install is what lies here: every module, under one import name.

One build (sdist, then the wheel from it) from a copy of the sources serves all tests; nothing is downloaded.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
LAYERS = sorted(SETUPTOOLS["package-dir"].values())


def package_folders() -> dict[str, Path]:
    """Package name -> folder, for every folder that holds an ``__init__.py``."""
    found = {"playhead": ROOT / "playhead"}
    for path in sorted(ROOT.iterdir()):
        if path.name in {"playhead", "tests"} or path.name.startswith(".") or not path.is_dir():
            continue
        for init in sorted(path.rglob("__init__.py")):
            found[".".join(("playhead", *init.parent.relative_to(ROOT).parts))] = init.parent
    return found


def run(*command: str | Path, cwd: Path) -> str:
    """What ``command`` prints; a failure shows all of it."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build reads, links left as links."""
    copy = tmp_path_factory.mktemp("sources") / "playhead"
    copy.mkdir()
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, copy / name)
    (copy / "tests").mkdir()
    shutil.copy(__file__, copy / "tests")
    for name in ("playhead", *LAYERS):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="module")
def dist(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``python -m build`` makes: the sdist, and the wheel out of it."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, sources, cwd=out)
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which pip installed the wheel, without its dependencies."""
    target = tmp_path_factory.mktemp("installed")
    run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
        *("--target", target, wheel),
        cwd=target,
    )
    return target


def python_in(site: Path, code: str, cwd: Path) -> str:
    """What ``code`` prints where ``site`` is the only place that knows Playhead.

    Dependencies are found, but no ``.pth`` file of this environment is read (one may know a checkout).
    """
    dependencies = sysconfig.get_paths()["purelib"]
    start = f"import site, sys; site.addsitedir({str(site)!r}); sys.path.append({dependencies!r}); "
    return run(sys.executable, "-I", "-S", "-c", start + code, cwd=cwd)


IMPORT_ALL = (
    "import importlib, pkgutil, playhead; "
    "names = [m.name for m in pkgutil.walk_packages(playhead.__path__, 'playhead.')]; "
    "[importlib.import_module(n) for n in names if not n.startswith('playhead.migrations.')]; "
    "print(playhead.__file__); print(len(names))"
)
"""Imports every module but Alembic's scripts, which only run inside Alembic."""


def module_files() -> set[str]:
    """Every file of the package as the wheel names it."""
    suffixes = {".py", ".mako", ".typed"}
    return {
        "/".join((*name.split("."), path.name))
        for name, folder in package_folders().items()
        for path in folder.iterdir()
        if path.suffix in suffixes
    }


def test_the_packages_list_names_every_folder_with_an_init() -> None:
    assert SETUPTOOLS["packages"] == sorted(package_folders())


def test_every_module_lies_in_a_listed_package() -> None:
    stray = {
        path.relative_to(ROOT).as_posix()
        for layer in LAYERS
        for path in (ROOT / layer).rglob("*.py")
        if not (path.parent / "__init__.py").is_file()
    }
    assert not stray


def test_the_sdist_holds_the_layers_and_no_stray_tests(dist: Path) -> None:
    (built,) = dist.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        inside = {member.name.partition("/")[2] for member in archive if member.isfile()}
    texts = {"CHANGELOG.md", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}
    assert {name for name in inside if "/" not in name} == texts
    assert {name.split("/")[0] for name in inside - texts} == {"playhead", "playhead.egg-info", *LAYERS}


def test_the_wheel_built_through_the_sdist_holds_every_module_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == module_files()
    assert "playhead/py.typed" in held


def test_every_module_of_an_installed_wheel_imports_outside_the_checkout(installed: Path) -> None:
    location, count = python_in(installed, IMPORT_ALL, cwd=installed).split()
    assert Path(location).is_relative_to(installed)
    assert int(count) > 20


def test_an_installed_wheel_brings_the_command(installed: Path, tmp_path: Path) -> None:
    code = "from playhead.cli.main import main; sys.argv = ['playhead', '--version']; main()"
    assert python_in(installed, code, cwd=tmp_path).strip() == f"playhead {PROJECT['project']['version']}"


def test_an_editable_install_works_and_sees_new_modules(sources: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    code = f"from setuptools import build_meta; print(build_meta.build_editable({str(tmp_path)!r}))"
    run(sys.executable, "-c", code, cwd=sources)
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(site)
    location, _ = python_in(site, IMPORT_ALL, cwd=tmp_path).split()
    assert Path(location) == sources / "playhead" / "__init__.py"
    added = sources / "eventstore" / "added_later.py"
    added.write_text("HERE = 1\n")
    try:
        found = python_in(
            site, "from playhead.eventstore import added_later as a; print(a.HERE)", cwd=tmp_path
        )
    finally:
        added.unlink()
    assert found.strip() == "1"

"""Chat templates that packages on PyPI publish, downloaded once into a cache and never part of the tree."""
import io
import json
import os
import tarfile
import urllib.parse
import urllib.request
import zipfile

# Packages with NAME.jinja files: the kind of file, and the folder in it.
PACKAGES = {
    "trl": ("bdist_wheel", "trl/chat_templates/"),
    "axolotl": ("bdist_wheel", "axolotl/utils/chat_templates/templates/"),
    "vllm": ("sdist", "/examples/"),
    "llama-cpp-python": ("sdist", "/vendor/llama.cpp/models/templates/"),
}


def default_cache():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "trainspool", "chat-templates")


def files_of(name, data):
    """Yield the names and contents of an archive's files."""
    if name.endswith(".whl"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.namelist():
                yield entry, lambda e=entry: archive.read(e)
    else:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for entry in archive:
                if entry.isfile():
                    yield entry.name, lambda e=entry: archive.extractfile(e).read()


def download(package, folder):
    kind, where = PACKAGES[package]
    index = f"https://pypi.org/pypi/{package}/json"
    with urllib.request.urlopen(index, timeout=60) as answer:
        info = json.load(answer)
    files = [f for f in info["urls"] if f["packagetype"] == kind]
    if not files:
        return
    address = urllib.parse.urljoin(index, files[0]["url"])  # mirrors give relative ones
    with urllib.request.urlopen(address, timeout=600) as answer:
        data = answer.read()
    os.makedirs(folder + ".part", exist_ok=True)
    for name, read in files_of(files[0]["filename"], data):
        if where in name and name.endswith(".jinja"):
            with open(os.path.join(folder + ".part", os.path.basename(name)), "wb") as f:
                f.write(read())
    os.rename(folder + ".part", folder)


def templates(cache):
    """Return {"PACKAGE/NAME": text} of all packages that are cached or can be downloaded."""
    found = {}
    for package in PACKAGES:
        folder = os.path.join(cache, package)
        try:
            if not os.path.isdir(folder):
                os.makedirs(cache, exist_ok=True)
                download(package, folder)
        except OSError as error:
            print(f"conversations: cannot download the templates of {package}: {error}")
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                found[f"{package}/{name}"] = f.read()
    return found

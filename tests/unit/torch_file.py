#!/usr/bin/env python3
"""Print what files of torch.save hold, with the standard library alone: one value a file, tensors as
T(format, shape, strides, values).  Used by tests/unit/test_torch_file.c and test_torch_state.c."""
import pickle
import struct
import sys
import zipfile

ITEMS = {"FloatStorage": ("f", 4), "HalfStorage": ("e", 2), "BFloat16Storage": (None, 2)}


class Tensor:
    def __init__(self, storage, offset, shape, strides, requires_grad, hooks):
        assert offset == 0 and requires_grad is False and not hooks
        self.text = f"T({storage[0]}, {shape}, {strides}, {storage[1]})"

    def __repr__(self):
        return self.text


class Reader(pickle.Unpickler):
    def __init__(self, archive, folder):
        super().__init__(archive.open(folder + "/data.pkl"))
        self.archive, self.folder = archive, folder

    def find_class(self, module, name):
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return Tensor
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        assert module == "torch" and name in ITEMS, (module, name)
        return name

    def persistent_load(self, pid):
        kind, storage, key, location, count = pid
        assert (kind, location) == ("storage", "cpu")
        code, size = ITEMS[storage]
        data = self.archive.read(f"{self.folder}/data/{key}")
        assert len(data) == size * count, (len(data), count)
        if code:
            return storage, [round(x, 7) for x in struct.unpack(f"<{count}{code}", data)]
        bits = struct.unpack(f"<{count}H", data)
        return storage, [struct.unpack("<f", struct.pack("<I", x << 16))[0] for x in bits]


def main():
    for path in sys.argv[1:]:
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            folder = archive.namelist()[0].split("/")[0]
            assert archive.read(folder + "/version") == b"3\n"
            assert archive.read(folder + "/byteorder") == b"little"
            for entry in archive.infolist():
                assert entry.compress_type == zipfile.ZIP_STORED
                with open(path, "rb") as f:
                    f.seek(entry.header_offset + 26)
                    name, extra = struct.unpack("<HH", f.read(4))
                assert (entry.header_offset + 30 + name + extra) % 64 == 0, entry.filename
            print(Reader(archive, folder).load())


if __name__ == "__main__":
    main()

"""The scalars of YAML files as PyYAML sees them, one per line, in order:

    F path            a file begins; R path: PyYAML rejects it
    S begin end text  bytes of the scalar, quotes included; its value in hexadecimal digits

PyYAML ends a block scalar after the blank lines that follow it: its end is -.
"""

import sys

import yaml


def show(text, node):
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            show(text, key)
            show(text, value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            show(text, item)
    else:
        begin = len(text[: node.start_mark.index].encode())
        end = len(text[: node.end_mark.index].encode())
        if node.style in ("|", ">"):
            end = "-"
        if begin == end:
            begin = end = "-"  # an empty value has no place of its own
        print("S", begin, end, node.value.encode().hex() or "-")


for path in sys.argv[1:]:
    with open(path, "rb") as file:
        text = file.read().decode()
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        print("R", path)
        continue
    print("F", path)
    show(text, root)

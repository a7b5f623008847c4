"""Rows of the table."""


class Skip(Exception):
    """The machine lacks what a row needs."""


class Result:
    def __init__(self, goal, size, result, value, ok, measured=False, details=()):
        self.goal, self.size, self.result, self.value = goal, size, result, value
        self.ok, self.measured, self.details = ok, measured, list(details)

    def fails(self):
        return not self.ok and not self.measured

    def print(self, name):
        ok = "yes" if self.ok else "no (measured)" if self.measured else "**no**"
        print(f"| {name}: {self.goal} | {self.size} | {self.result} | {self.value} | {ok} |", flush=True)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def add(total, counts):
    for key, count in counts.items():
        total[key] = total.get(key, 0) + count


def say(counts):
    return ", ".join(f"{count} {key}" for key, count in counts.items())

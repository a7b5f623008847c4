"""k8s.py - what Kubernetes would say to a manifest, and do with it.

    k8s.py check FILE             what its API server rejects, and schemas do not know
    k8s.py schema FILE            kubernetes-validate, if this Python has it; else exit status 77
    k8s.py expect FILE JOB MOUNT  the command that the pods run, after expansion, names this job
    k8s.py get FILE PATH          print a value, such as Job/spec/completions; ~1 is a slash in a name
    k8s.py run FILE [STEP SIGNAL POD]
        be the controller of Jobs, with a process for each pod; at a step of the job, send a signal to
        a pod, which counts as a disruption if it is TERM
"""
import json
import os
import re
import signal
import subprocess
import sys
import time

import yaml

LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"  # DNS-1035
SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
QUANTITY = r"[0-9]+(\.[0-9]+)?(m|Ki|Mi|Gi|Ti)?"


def load(name):
    with open(name, encoding="utf-8") as f:
        objects = list(yaml.safe_load_all(f))
    return {o["kind"]: o for o in objects}, len(objects)


def container_of(job):
    return job["spec"]["template"]["spec"]["containers"][0]


def amount(text):
    units = {"m": 0.001, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    number = re.match(r"[0-9.]+", text).group()
    return float(number) * units.get(text[len(number):], 1)


# Each check yields what is wrong.  Source: pkg/apis/{batch,core}/validation of Kubernetes.

def check_names(objects):
    for o in objects.values():
        name = o["metadata"]["name"]
        if not re.fullmatch(LABEL, name) or len(name) > 63:
            yield f"name of the {o['kind']}: {name}"
        labels = dict(o["metadata"]["labels"])
        labels.update(o["spec"].get("template", {}).get("metadata", {}).get("labels", {}))
        labels.update(o["spec"].get("selector", {}))
        for key, value in labels.items():
            if not re.fullmatch(LABEL_VALUE, value) or len(value) > 63:
                yield f"label {key}: {value}"
        for key, value in o["metadata"].get("annotations", {}).items():
            if not re.fullmatch(SUBDOMAIN + "/" + r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", key):
                yield f"annotation {key}"
            if not isinstance(value, str):
                yield f"annotation {key} is no text"


def check_service(objects):
    job, service = objects["Job"], objects.get("Service")
    pod = job["spec"]["template"]["spec"]
    if (service is None) != (job["spec"]["completions"] == 1):
        yield "a service is for several pods"
    if service is None:
        if "subdomain" in pod:
            yield "a subdomain without a service"
        return
    if service["spec"]["clusterIP"] != "None" or service["spec"].get("ports"):
        yield "the service is not headless"
    if service["spec"]["selector"] != {"batch.kubernetes.io/job-name": job["metadata"]["name"]}:
        yield "the service does not select the pods"
    if pod["subdomain"] != service["metadata"]["name"]:
        yield "the pods are not in the domain of the service"
    last = f"{job['metadata']['name']}-{job['spec']['completions'] - 1}"
    if len(last) > 63:
        yield f"host name of the last pod: {last}"


def check_job(objects):
    spec = objects["Job"]["spec"]
    pod = spec["template"]["spec"]
    if spec["completionMode"] != "Indexed":
        yield "completionMode"
    if not spec["completions"] == spec["parallelism"] > 0:
        yield "completions and parallelism"
    if spec["backoffLimit"] < 0 or "backoffLimitPerIndex" in spec:
        yield "backoffLimit"
    if pod["restartPolicy"] != "Never":
        yield "podFailurePolicy needs restartPolicy: Never"
    for rule in spec["podFailurePolicy"]["rules"]:
        if rule["action"] not in ("FailJob", "Ignore", "Count"):
            yield f"action {rule['action']}"
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if (codes is None) == (conditions is None):
            yield "a rule has one requirement"
        if codes and (codes["operator"] not in ("In", "NotIn") or codes["values"] != sorted(set(codes["values"]))
                      or 0 in codes["values"] or codes["containerName"] != container_of(objects["Job"])["name"]):
            yield f"onExitCodes {codes}"
        for condition in conditions or []:
            if condition["type"] != "DisruptionTarget" or condition["status"] not in ("True", "False"):
                yield f"onPodConditions {condition}"
    for rule in spec["successPolicy"]["rules"]:
        if not re.fullmatch(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*", rule["succeededIndexes"]):
            yield "succeededIndexes"


def check_pod(objects):
    pod = objects["Job"]["spec"]["template"]["spec"]
    container = container_of(objects["Job"])
    if not 30 <= pod["terminationGracePeriodSeconds"] <= 86400 * 2:
        yield "terminationGracePeriodSeconds"
    if not pod["securityContext"]["runAsNonRoot"] or pod["securityContext"]["runAsUser"] < 1:
        yield "the pod runs as root"
    rights = container["securityContext"]
    if rights["allowPrivilegeEscalation"] or rights["capabilities"]["drop"] != ["ALL"]:
        yield "privileges"
    volumes = [v["name"] for v in pod["volumes"]]
    mounts = container["volumeMounts"]
    if len(set(volumes)) != len(volumes) or sorted(volumes) != sorted(m["name"] for m in mounts):
        yield "volumes and mounts differ"
    paths = [m["mountPath"] for m in mounts]
    if len(set(paths)) != len(paths) or any(":" in p or not p.startswith("/") for p in paths):
        yield f"mountPath {paths}"
    if any(not re.fullmatch(LABEL, v) for v in volumes):
        yield "name of a volume"
    for v in pod["volumes"]:
        if len(v) != 2:
            yield f"volume {v} needs one source"
        claim = v.get("persistentVolumeClaim", {}).get("claimName", "a")
        if not re.fullmatch(SUBDOMAIN, claim):
            yield f"claim {claim}"
    for variable in container["env"]:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable["name"]):
            yield f"variable {variable['name']}"
        field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        if ("value" in variable) == bool(field) or not isinstance(variable.get("value", ""), str):
            yield f"variable {variable}"
        if field and not re.fullmatch(r"metadata\.annotations\['[a-z0-9./-]+'\]", field):
            yield f"fieldPath {field}"
    if any(not isinstance(word, str) or "\0" in word for word in container["command"]):
        yield "command"


def check_resources(objects):
    resources = container_of(objects["Job"])["resources"]
    requests, limits = resources["requests"], resources.get("limits", {})
    for name, value in list(requests.items()) + list(limits.items()):
        if not isinstance(value, str) or not re.fullmatch(QUANTITY, value):
            yield f"{name}: {value!r}"
            return
    for name, limit in limits.items():
        if "/" in name and not re.fullmatch("[1-9][0-9]*", limit):
            yield f"{name}: {limit}"
        if name in requests and amount(requests[name]) > amount(limit):
            yield f"{name}: the request is above the limit"
    if any("/" in name and name not in limits for name in requests):
        yield "a device without a limit"


def check_placement(objects):
    pod = objects["Job"]["spec"]["template"]["spec"]
    affinity = pod.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": []})
    for term in required["nodeSelectorTerms"]:
        for e in term["matchExpressions"]:
            numbers = e["operator"] in ("Gt", "Lt")
            if e["operator"] not in ("In", "NotIn", "Gt", "Lt") or not e["values"] or any(
                    not isinstance(v, str) for v in e["values"]):
                yield f"expression {e}"
            if numbers and (len(e["values"]) != 1 or not e["values"][0].isdigit()):
                yield f"expression {e}"
    for spread in pod.get("topologySpreadConstraints", []):
        if spread["whenUnsatisfiable"] not in ("DoNotSchedule", "ScheduleAnyway") or spread["maxSkew"] < 1:
            yield f"spread {spread}"
    for toleration in pod.get("tolerations", []):
        if toleration["operator"] not in ("Exists", "Equal") or toleration["effect"] not in (
                "NoSchedule", "PreferNoSchedule", "NoExecute"):
            yield f"toleration {toleration}"


def check(name):
    objects, count = load(name)
    wrong = [] if count == len(objects) else ["two objects of one kind"]
    for part in (check_names, check_service, check_job, check_pod, check_resources, check_placement):
        wrong += part(objects)
    print("\n".join(wrong))
    return 1 if wrong else 0


def schema(name):
    try:
        import kubernetes_validate
    except ImportError:
        print("no kubernetes-validate")
        return 77
    with open(name, encoding="utf-8") as f:
        for o in yaml.safe_load_all(f):
            for version in ("1.31", kubernetes_validate.latest_version()):
                kubernetes_validate.validate(o, version, strict=True)
    return 0


def expand(text, variables):
    """$(NAME) and $$ as Kubernetes expands them: an unknown name stays."""
    def one(match):
        if match.group() == "$$":
            return "$"
        return variables.get(match.group(1), match.group())
    return re.sub(r"\$\$|\$\(([^()]*)\)", one, text)


def variables_of(container, index):
    found = {}
    for v in container["env"]:
        found[v["name"]] = str(index) if "valueFrom" in v else expand(v["value"], found)
    return found


def expect(name, job, mount):
    objects, _ = load(name)
    container = container_of(objects["Job"])
    hostile = {"HOME": "wrong", "x": "wrong", "": "wrong", **variables_of(container, 0)}
    command = [expand(word, hostile) for word in container["command"]]
    found = (command[0], command[-1], container["workingDir"], container["volumeMounts"][0]["mountPath"],
             objects["Job"]["metadata"]["annotations"]["trainspool/job"])
    wanted = ("trainspool", job, os.path.dirname(job), mount, job)
    print(found, wanted)
    return 0 if found == wanted else 1


def get(name, path):
    value, _ = load(name)
    for key in path.split("/"):
        key = key.replace("~1", "/")
        value = value[int(key)] if isinstance(value, list) else value[key]
    print(value if isinstance(value, str) else json.dumps(value))
    return 0


class Controller:
    """The controller of Indexed Jobs, as far as this manifest uses it."""

    def __init__(self, job):
        self.spec, self.container = job["spec"], container_of(job)
        self.pods, self.disrupted, self.done = {}, set(), set()
        self.failures = self.started = 0

    def start(self, index):
        variables = variables_of(self.container, index)
        command = [expand(word, variables) for word in self.container["command"]]
        keep = {k: os.environ[k] for k in ("PATH", "TRAINSPOOL_SHARED") if k in os.environ}
        self.pods[index] = subprocess.Popen(command, env={**keep, **variables}, cwd=self.container["workingDir"],
                                            start_new_session=True)
        self.started += 1

    def signal(self, index, number):
        """A signal to the first process; KILL takes the others of the container with it."""
        if number == signal.SIGTERM:
            self.disrupted.add(index)
            self.pods[index].send_signal(number)
        else:
            os.killpg(self.pods[index].pid, number)

    def matches(self, rule, index, status):
        if "onPodConditions" in rule:
            return index in self.disrupted
        codes = rule["onExitCodes"]
        return (status in codes["values"]) == (codes["operator"] == "In")

    def ended(self, index, status):
        """Return the result of the Job if this pod decides it."""
        status = status if status >= 0 else 128 - status
        print(f"pod {index} ended with {status}")
        if status == 0:
            self.done.add(index)
            return "Complete" if str(index) == self.spec["successPolicy"]["rules"][0]["succeededIndexes"] else None
        action = next((r["action"] for r in self.spec["podFailurePolicy"]["rules"] if self.matches(r, index, status)),
                      "Count")
        self.disrupted.discard(index)
        if action == "FailJob":
            return "Failed: PodFailurePolicy"
        self.failures += action == "Count"
        return "Failed: BackoffLimitExceeded" if self.failures > self.spec["backoffLimit"] else None

    def run(self, event):
        result, until = None, time.time() + 200
        for index in range(self.spec["completions"]):
            self.start(index)
        while result is None and time.time() < until:
            time.sleep(0.05)
            if event and event.due():
                self.signal(event.pod, event.number)
                event = None
            for index, pod in list(self.pods.items()):
                if pod.poll() is None:
                    continue
                del self.pods[index]
                result = self.ended(index, pod.returncode) or result
                if result is None and index not in self.done:
                    self.start(index)
        for pod in self.pods.values():
            try:
                pod.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(pod.pid, signal.SIGKILL)
        print(f"{result}, {self.failures} failures, {self.started} pods started")
        return 0 if result == "Complete" else 1


class Event:
    def __init__(self, job, step, name, pod):
        self.state = re.sub(r"\.ya?ml$", ".run/state.json", job)
        self.step, self.number, self.pod = int(step), getattr(signal, "SIG" + name), int(pod)

    def due(self):
        try:
            with open(self.state, encoding="utf-8") as f:
                state = json.load(f)
        except (OSError, ValueError):
            return False
        return state["state"] == "running" and state["step"] >= self.step


def run(name, *event):
    objects, _ = load(name)
    job = objects["Job"]["metadata"]["annotations"]["trainspool/job"]
    return Controller(objects["Job"]).run(Event(job, *event) if event else None)


commands = {"check": check, "schema": schema, "expect": expect, "get": get, "run": run}
if __name__ == "__main__":
    sys.exit(commands[sys.argv[1]](*sys.argv[2:]))

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The manifests of config/kubernetes and examples/ci: each document is valid by the types of Kubernetes' own client, or
by a schema in schemas/, which names its source; keeps the rules of docs/090; and, broken in one place at a time, is
refused. None runs: there is no cluster here."""
import copy
import glob
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
SKIP = 77
MAY_ADD = {"NET_RAW", "IPC_LOCK"}  # docs/010, "Without root"

try:
    import jsonschema
    import yaml
    from kubernetes.client import models
except ImportError as error:
    print(f"skipped: {error} (tools/deps test)")
    sys.exit(SKIP)


# ---- the judges: for each document, [] or what is wrong ----

def schema(name):
    with open(os.path.join(HERE, "schemas", f"{name}.json"), encoding="utf-8") as file:
        return json.load(file)


def by_schema(name, value):
    return [error.message for error in jsonschema.Draft202012Validator(schema(name)).iter_errors(value)]


def text_by_schema(name, text):
    try:
        return by_schema(name, json.loads(text))
    except (TypeError, ValueError) as error:
        return [f"no JSON: {error}"]


def chain(sriov, more='{"type": "rdma"}'):
    """What the SR-IOV network operator makes of a SriovNetwork's texts."""
    return f'{{"cniVersion": "0.3.1", "name": "x", "plugins": [{sriov}, {more}]}}'


def by_ours(doc):
    """Documents of kinds that Kubernetes itself does not have, and JSON inside of documents."""
    kind, found = doc.get("kind"), []
    if os.path.exists(os.path.join(HERE, "schemas", f"{kind}.json")):
        found += by_schema(kind, doc)
    if kind == "NetworkAttachmentDefinition" and not found:
        found += text_by_schema("sriov-cni", doc["spec"]["config"])
    if kind == "ConfigMap":
        found += text_by_schema("sriov-device-plugin", doc.get("data", {}).get("config.json"))
    if kind == "SriovNetwork" and not found:
        for key in {"capabilities", "ipam"} & doc["spec"].keys():
            found += text_by_schema("sriov-cni", chain(f'{{"type": "sriov", "{key}": {doc["spec"][key]}}}'))
        found += text_by_schema("sriov-cni", chain('{"type": "sriov"}', doc["spec"].get("metaPlugins", "")))
    return found


PLAIN = {"str": str, "int": int, "bool": bool, "object": object}
KINDS = {"v1 ConfigMap", "v1 Namespace", "v1 Pod", "v1 Service", "apps/v1 DaemonSet"}


def by_type(kind, value, where):
    """What is wrong with a value that should be of that type of Kubernetes' API: names that it does not have, values of
    another type, and required ones that are not there."""
    if kind in PLAIN:
        good = isinstance(value, PLAIN[kind]) and (kind != "int" or not isinstance(value, bool))
        return [] if good else [f"{where}: {value!r} is no {kind}"]
    if not isinstance(value, list if kind.startswith("list[") else dict):
        return [f"{where}: {value!r} is no {kind}"]
    if kind.startswith(("list[", "dict(")):
        inner = kind[5:-1].rpartition(", ")[2]
        items = enumerate(value) if isinstance(value, list) else value.items()
        if where.endswith((".limits", ".requests")):  # quantities, which may be numbers
            items = ((key, str(item) if isinstance(item, int) else item) for key, item in items)
        return [fault for key, item in items for fault in by_type(inner, item, f"{where}.{key}")]
    model = getattr(models, kind)
    names = {name: attribute for attribute, name in model.attribute_map.items()}
    found = [f"{where}.{name}: there is no such name" for name in value if name not in names]
    known = {names[name]: item for name, item in value.items() if name in names}
    try:
        model(**known)
    except ValueError as error:
        found.append(f"{where}: {error}")
    return found + [fault for attribute, item in known.items()
                    for fault in by_type(model.openapi_types[attribute], item,
                                         f"{where}.{model.attribute_map[attribute]}")]


def by_kubernetes(doc):
    """By the types of Kubernetes' own client."""
    if os.path.exists(os.path.join(HERE, "schemas", f"{doc.get('kind')}.json")):
        return []
    if f"{doc.get('apiVersion')} {doc.get('kind')}" not in KINDS:
        return [f"no {doc.get('kind')} in {doc.get('apiVersion')}"]
    return by_type(f"V1{doc['kind']}", doc, doc["kind"])


def pod_of(doc):
    if doc.get("kind") == "Pod":
        return doc.get("spec")
    return doc.get("spec", {}).get("template", {}).get("spec") if doc.get("kind") == "DaemonSet" else None


def container_faults(pod, container):
    """What docs/090 promises of every container."""
    rights = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
    caps, ask = rights.get("capabilities", {}), container.get("resources", {})
    if rights.get("privileged") or rights.get("allowPrivilegeEscalation") is not False:
        yield "privileged, or may become so"
    if rights.get("readOnlyRootFilesystem") is not True:
        yield "root file system can be written"
    if caps.get("drop") != ["ALL"] or not set(caps.get("add", ())) <= MAY_ADD:
        yield f"capabilities {caps}"
    if rights.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "no seccomp profile"
    if not rights.get("runAsNonRoot") and rights.get("runAsUser") != 0:
        yield "user 0 by accident"
    if "add" in caps and rights.get("runAsUser") != 0:
        yield "Kubernetes gives added capabilities to user 0 only"
    if any(name.startswith("spinwire") for name in (container.get("name", ""),)):
        yield from core_faults(ask)


def core_faults(ask):
    limits = ask.get("limits", {})
    if ask.get("requests") != limits or not re.fullmatch(r"[1-9]\d*", str(limits.get("cpu"))):
        yield "no whole cores of its own (Guaranteed, integer CPUs)"
    if not {"memory", "hugepages-2Mi", "nvidia.com/connectx_vf"} <= limits.keys():
        yield f"lacks memory, hugepages or a virtual function: {sorted(limits)}"


def pod_faults(pod):
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(name):
            yield name
    if pod.get("automountServiceAccountToken") is not False:
        yield "has a token of the cluster"
    mounts = {volume["name"] for volume in pod.get("volumes", ())}
    for container in [*pod.get("initContainers", ()), *pod.get("containers", ())]:
        yield from (f"{container.get('name')}: {fault}" for fault in container_faults(pod, container))
        lost = {mount.get("name") for mount in container.get("volumeMounts", ())} - mounts
        if lost:
            yield f"mounts {lost}, which is no volume"


def network_faults(doc):
    """Only the network for raw frames lets a pod take other addresses than its function's; the plugin's own defaults
    are the host's settings."""
    if doc["kind"] == "NetworkAttachmentDefinition":
        spec = json.loads(doc["spec"]["config"])["plugins"][0]
    else:
        spec = {key.lower(): value for key, value in doc["spec"].items()}
    raw = doc["metadata"]["name"].endswith("-raw")
    want = {"spoofchk": "off", "trust": "on"} if raw else {"spoofchk": "on", "trust": "off"}
    yield from (f"{key} is {spec.get(key)}, not {value}" for key, value in want.items() if spec.get(key) != value)


def attachment_faults(doc, pod):
    """Who can send no raw frame needs no network for them."""
    networks = json.loads(doc["metadata"].get("annotations", {}).get("k8s.v1.cni.cncf.io/networks", "[]"))
    adds = {right for container in pod["containers"] for right in container.get("securityContext",
                                                                                {}).get("capabilities", {}).get("add",
                                                                                                                ())}
    if any(network["name"].endswith("-raw") for network in networks) and "NET_RAW" not in adds:
        yield "is on the network for raw frames without NET_RAW"


def judge(doc):
    """A document that is not valid is not read any further."""
    found = by_kubernetes(doc) or by_ours(doc)
    pod = None if found else pod_of(doc)
    if pod:
        found += [*pod_faults(pod), *attachment_faults(doc, pod)]
    elif not found and doc["kind"] in ("NetworkAttachmentDefinition", "SriovNetwork"):
        found += network_faults(doc)
    return found


# ---- what is judged ----

def documents():
    """[(file, document)]"""
    for path in [*sorted(glob.glob(os.path.join(ROOT, "config", "kubernetes", "*.yaml"))),
                 os.path.join(ROOT, "examples", "ci", "pods.yaml")]:
        with open(path, encoding="utf-8") as file:
            for doc in yaml.safe_load_all(file):
                yield os.path.basename(path), doc


def places(value, path=()):
    """Every key of every mapping in it, as a path; not the free ones of labels and of the like (a service's
    selector)."""
    free = ("labels", "matchLabels", "annotations", "nodeSelector", "data", "selector" if path == ("spec",) and
            "clusterIP" in value else "")
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if isinstance(value, dict):
            yield (*path, key)
        if key not in free:
            yield from places(inner, (*path, key))


def at(doc, path):
    for key in path:
        doc = doc[key]
    return doc


def renamed(doc, path):
    """A misspelt name."""
    broken = copy.deepcopy(doc)
    inside = at(broken, path[:-1])
    inside[f"{path[-1]}x"] = inside.pop(path[-1])
    return broken


def with_value(doc, path, value):
    broken = copy.deepcopy(doc)
    at(broken, path[:-1])[path[-1]] = value
    return broken


def free_names(path):
    """Names of resources and of options are not in Kubernetes' schemas."""
    return bool({"requests", "limits"} & set(path[:-1])) and "containers" not in path[-2:]


def broken(doc):
    """(how, document): one fault each."""
    for path in places(doc):
        where = ".".join(map(str, path))
        if not free_names(path):
            yield f"{where} misspelt", renamed(doc, path)
        wrong = {"not": "a text"} if not isinstance(at(doc, path), dict) else "a text"
        yield f"{where} of the wrong type", with_value(doc, path, wrong)
    pod = ("spec",) if doc["kind"] == "Pod" else ("spec", "template", "spec")
    if pod_of(doc):
        rights = (*pod, "containers", 0, "securityContext")
        for how, path, value in (("privileged", (*rights, "privileged"), True),
                                 ("all rights", (*rights, "capabilities"), {"add": ["ALL"]}),
                                 ("one right too many", (*rights, "capabilities"),
                                  {"drop": ["ALL"], "add": ["SYS_ADMIN"]}),
                                 ("writable root", (*rights, "readOnlyRootFilesystem"), False),
                                 ("host network", (*pod, "hostNetwork"), True),
                                 ("no seccomp", (*pod, "securityContext", "seccompProfile"), {"type": "Unconfined"})):
            yield how, with_value(doc, path, value)
        if at(doc, (*pod, "containers", 0, "name")).startswith("spinwire"):
            for how, path, value in (("parts of cores", ("limits", "cpu"), "2500m"),
                                     ("not Guaranteed", ("requests", "memory"), "512Mi")):
                yield how, with_value(doc, (*pod, "containers", 0, "resources", *path), value)
    if doc["kind"] == "SriovNetwork":
        for key in ("trust", "spoofChk"):
            yield f"{key} turned", with_value(doc, ("spec", key), {"on": "off", "off": "on"}[doc["spec"][key]])
    if doc["kind"] == "NetworkAttachmentDefinition":
        for key in ("trust", "spoofchk"):
            config = json.loads(doc["spec"]["config"])
            sriov = config["plugins"][0]
            sriov[key] = {"on": "off", "off": "on"}[sriov[key]]
            yield f"{key} turned", with_value(doc, ("spec", "config"), json.dumps(config))
    rights = str(at(doc, (*pod, "containers", 0, "securityContext"))) if doc["kind"] == "Pod" else ""
    if doc["kind"] == "Pod" and "networks" in str(doc["metadata"].get("annotations")) and "add" not in rights:
        yield "on the raw network", with_value(doc, ("metadata", "annotations"),
                                               {"k8s.v1.cni.cncf.io/networks": '[{"name": "connectx-raw"}]'})
    for path, text in [(("data", "config.json"), "isRdma"), (("spec", "config"), "spoofchk"),
                       (("spec", "ipam"), "type"), (("spec", "metaPlugins"), "type")]:
        if path[-1] in doc.get(path[0], {}):
            yield f"{text} misspelt in {'.'.join(path)}", with_value(doc, path,
                                                                     at(doc, path).replace(f'"{text}"', f'"{text}x"'))


def main():
    docs = list(documents())
    cases = [(file, doc, how, case) for file, doc in docs for how, case in broken(doc)]
    faults = [f"{file}: {doc.get('kind')}: {text}" for file, doc in docs for text in judge(doc)]
    faults += [f"{file}: {doc['kind']}: {how}: not noticed" for file, doc, how, case in cases if not judge(case)]
    print("\n".join(faults))
    print(f"{len(docs)} documents, {len(cases)} broken ones, {len(faults)} faults")
    return 1 if faults or len(docs) < 10 else 0


sys.exit(main())

"""Dockerfile and .dockerignore, as far as this house writes them."""

import fnmatch
import re
from dataclasses import dataclass, field

PINNED = re.compile(r":v?\d+(\.\d+)+[-.\w]*$")


@dataclass
class Stage:
    """One FROM with what follows it."""

    base: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [rest for name, rest in self.lines if name == instruction]


def stages(text: str) -> tuple[dict[str, str], dict[str, Stage]]:
    """The arguments before the first stage, and the stages by name."""
    arguments: dict[str, str] = {}
    found: dict[str, Stage] = {}
    stage: Stage | None = None
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            base, _, label = rest.partition(" AS ")
            stage = found[label or base] = Stage(base)
        elif stage is None:
            key, _, value = rest.partition("=")
            arguments[key] = value
        else:
            stage.lines.append((name, rest))
    return arguments, found


def sent(path: str, ignore: str) -> bool:
    """Whether the path is sent to the engine: the last pattern that fits it, or a folder above it, decides."""
    parts, answer = path.split("/"), True
    above = ["/".join(parts[: n + 1]) for n in range(len(parts))]
    for line in ignore.splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        back, pattern = pattern.startswith("!"), pattern.removeprefix("!")
        if pattern.startswith("**/"):
            fits = any(fnmatch.fnmatch(part, pattern[3:]) for part in parts)
        else:
            fits = any(fnmatch.fnmatch(one, pattern) for one in above)
        answer = back if fits else answer
    return answer


def breaches(text: str, ignore: str, has: "set[str]", groups: "set[str]", targets: "set[str]") -> list[str]:
    """What is wrong: `has` are the paths of the build context, `targets` those that somebody builds."""
    arguments, found = stages(text)
    told = [f"no target {one}" for one in sorted(targets - set(found))]
    for name, stage in found.items():
        base = re.sub(r"\$\{(\w+)\}", lambda match: arguments.get(match[1], ""), stage.base)
        if base not in found and not PINNED.search(base):
            told.append(f"{name}: base {base} is not pinned")
        for copy in stage.all("COPY"):
            told += _copied(name, copy, ignore, has, found)
        for group in re.findall(r"--only-group (\w+)", " ".join(stage.all("RUN"))):
            told += [] if group in groups else [f"{name}: no group {group}"]
    told += [f"{one}: an environment lies above the code" for one in sorted(targets & set(found)) if _late(one, found)]
    return told + [
        f"{one}: runs as root" for one in sorted(targets & set(found)) if _user(one, found) in ("", "0", "root")
    ]


def _copied(name: str, copy: str, ignore: str, has: "set[str]", found: dict[str, Stage]) -> list[str]:
    if match := re.match(r"--from=(\S+)", copy):
        return [] if match[1] in found else [f"{name}: no stage {match[1]}"]
    paths = [one.rstrip("/") for one in copy.split()[:-1]]
    lacking = [f"{name}: {one} is not there" for one in paths if one not in has]
    return lacking + [f"{name}: {one} is ignored" for one in paths if not sent(one, ignore)]


def _late(name: str, found: dict[str, Stage]) -> bool:
    """Whether a commit changes the layer of an environment, of gigabytes: it is copied after the code."""
    sources: list[str] = []
    while name in found:
        sources = [match[1] for one in found[name].all("COPY") if (match := re.match(r"--from=(\S+)", one))] + sources
        name = found[name].base
    return "code" in sources and any(one.startswith("build-") for one in sources[sources.index("code") :])


def _user(name: str, found: dict[str, Stage]) -> str:
    """The user that a stage leaves, its own or its base's."""
    users = found[name].all("USER")
    if users:
        return users[-1].split(":")[0]
    return _user(found[name].base, found) if found[name].base in found else ""

"""Check a Dockerfile and its .dockerignore, as far as this project uses their syntax."""

import fnmatch
import re
from dataclasses import dataclass, field

PINNED = re.compile(r":v?\d+(\.\d+)+[-.\w]*$")


@dataclass
class Stage:
    """One FROM and the instructions after it."""

    base: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def find_all(self, instruction: str) -> list[str]:
        """List the arguments of each use of an instruction."""
        return [rest for name, rest in self.lines if name == instruction]


def parse_dockerfile(text: str) -> tuple[dict[str, str], dict[str, Stage]]:
    """Return the arguments before the first stage, and the stages by name."""
    arguments: dict[str, str] = {}
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            base, _, label = rest.partition(" AS ")
            stage = stages[label or base] = Stage(base)
        elif stage is None:
            key, _, value = rest.partition("=")
            arguments[key] = value
        else:
            stage.lines.append((name, rest))
    return arguments, stages


def is_sent(path: str, ignore: str) -> bool:
    """Whether the path is sent to the engine: the last pattern that matches it, or a folder above it, decides.

    Args:
        path: path in the build context.
        ignore: text of .dockerignore.
    """
    parts, result = path.split("/"), True
    parents = ["/".join(parts[: n + 1]) for n in range(len(parts))]
    for line in ignore.splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        is_exception, pattern = pattern.startswith("!"), pattern.removeprefix("!")
        if pattern.startswith("**/"):
            matches = any(fnmatch.fnmatch(part, pattern[3:]) for part in parts)
        else:
            matches = any(fnmatch.fnmatch(parent, pattern) for parent in parents)
        result = is_exception if matches else result
    return result


def find_violations(text: str, ignore: str, paths: "set[str]", groups: "set[str]", targets: "set[str]") -> list[str]:
    """List what is wrong in a Dockerfile, as sentences.

    Args:
        text: text of the Dockerfile.
        ignore: text of .dockerignore.
        paths: paths of the build context.
        groups: dependency groups of pyproject.toml.
        targets: stages that a Compose file builds.
    """
    arguments, stages = parse_dockerfile(text)
    violations = [f"no target {target}" for target in sorted(targets - set(stages))]
    for name, stage in stages.items():
        base = re.sub(r"\$\{(\w+)\}", lambda match: arguments.get(match[1], ""), stage.base)
        if base not in stages and not PINNED.search(base):
            violations.append(f"{name}: base {base} is not pinned")
        for copy in stage.find_all("COPY"):
            violations += _check_copy(name, copy, ignore, paths, stages)
        for group in re.findall(r"--only-group (\w+)", " ".join(stage.find_all("RUN"))):
            violations += [] if group in groups else [f"{name}: no group {group}"]
    built = sorted(targets & set(stages))
    violations += [f"{name}: an environment lies above the code" for name in built if _is_late(name, stages)]
    return violations + [f"{name}: runs as root" for name in built if _find_user(name, stages) in ("", "0", "root")]


def _check_copy(name: str, copy: str, ignore: str, paths: "set[str]", stages: dict[str, Stage]) -> list[str]:
    if match := re.match(r"--from=(\S+)", copy):
        return [] if match[1] in stages else [f"{name}: no stage {match[1]}"]
    sources = [source.rstrip("/") for source in copy.split()[:-1]]
    missing = [f"{name}: {source} does not exist" for source in sources if source not in paths]
    return missing + [f"{name}: {source} is ignored" for source in sources if not is_sent(source, ignore)]


def _is_late(name: str, stages: dict[str, Stage]) -> bool:
    """Whether an environment is copied after the code: each commit would then change its layer, of gigabytes."""
    sources: list[str] = []
    while name in stages:
        copies = stages[name].find_all("COPY")
        sources = [match[1] for copy in copies if (match := re.match(r"--from=(\S+)", copy))] + sources
        name = stages[name].base
    return "code" in sources and any(source.startswith("build-") for source in sources[sources.index("code") :])


def _find_user(name: str, stages: dict[str, Stage]) -> str:
    """Return the last user of a stage, its own or its base's."""
    users = stages[name].find_all("USER")
    if users:
        return users[-1].split(":")[0]
    return _find_user(stages[name].base, stages) if stages[name].base in stages else ""

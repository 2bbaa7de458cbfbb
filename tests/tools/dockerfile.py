"""Check a Dockerfile and its .dockerignore, as far as this project uses their syntax."""

import fnmatch
import re
from dataclasses import dataclass, field

PINNED_PATTERN = re.compile(r":v?\d+(\.\d+)+[-.\w]*$")


@dataclass
class Stage:
    """A stage of a Dockerfile: one FROM and the instructions after it."""

    base: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def list_arguments(self, instruction: str) -> list[str]:
        """List the arguments of each use of an instruction."""
        return [argument for name, argument in self.lines if name == instruction]


def parse_dockerfile(text: str) -> tuple[dict[str, str], dict[str, Stage]]:
    """Return the arguments before the first stage, and the stages by name."""
    arguments: dict[str, str] = {}
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        name, _, argument = line.strip().partition(" ")
        if name == "FROM":
            base, _, label = argument.partition(" AS ")
            stage = stages[label or base] = Stage(base)
        elif stage is None:
            key, _, value = argument.partition("=")
            arguments[key] = value
        else:
            stage.lines.append((name, argument))
    return arguments, stages


def is_sent(path: str, ignore: str) -> bool:
    """Return whether a path is in the build context. The last pattern that matches it or a folder above it decides.

    Args:
        path: path below the folder of .dockerignore.
        ignore: text of .dockerignore.
    """
    parts, is_included = path.split("/"), True
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
        is_included = is_exception if matches else is_included
    return is_included


def find_violations(
    text: str, ignore: str, paths: "set[str]", selections: "set[str]", targets: "set[str]"
) -> list[str]:
    """List the violations of the rules for a Dockerfile, as sentences.

    Args:
        text: text of the Dockerfile.
        ignore: text of .dockerignore.
        paths: paths of the build context.
        selections: options of uv for each extra and dependency group of pyproject.toml, such as `--extra airflow`.
        targets: stages that a Compose file builds.
    """
    arguments, stages = parse_dockerfile(text)
    violations = [f"no target {target}" for target in sorted(targets - set(stages))]
    for name, stage in stages.items():
        base = re.sub(r"\$\{(\w+)\}", lambda match: arguments.get(match[1], ""), stage.base)
        if base not in stages and not PINNED_PATTERN.search(base):
            violations.append(f"{name}: base {base} is not pinned")
        for copy in stage.list_arguments("COPY"):
            violations += _check_copy(name, copy, ignore, paths, stages)
        for selection in re.findall(r"--(?:extra|group) \w+", " ".join(stage.list_arguments("RUN"))):
            violations += [] if selection in selections else [f"{name}: pyproject.toml has nothing for {selection}"]
    built_stages = sorted(targets & set(stages))
    violations += [
        f"{name}: an environment is copied after the code"
        for name in built_stages
        if _has_late_environment(name, stages)
    ]
    return violations + [
        f"{name}: runs as root" for name in built_stages if _find_user(name, stages) in ("", "0", "root")
    ]


def _check_copy(name: str, copy: str, ignore: str, paths: "set[str]", stages: dict[str, Stage]) -> list[str]:
    if match := re.match(r"--from=(\S+)", copy):
        return [] if match[1] in stages else [f"{name}: no stage {match[1]}"]
    sources = [source.rstrip("/") for source in copy.split()[:-1]]
    missing = [f"{name}: {source} does not exist" for source in sources if source not in paths]
    return missing + [f"{name}: {source} is ignored" for source in sources if not is_sent(source, ignore)]


def _has_late_environment(name: str, stages: dict[str, Stage]) -> bool:
    """Return whether an environment is copied after the code. Each commit would then change its layer of gigabytes."""
    sources: list[str] = []
    while name in stages:
        copies = stages[name].list_arguments("COPY")
        sources = [match[1] for copy in copies if (match := re.match(r"--from=(\S+)", copy))] + sources
        name = stages[name].base
    return "code" in sources and any(source.startswith("build-") for source in sources[sources.index("code") :])


def _find_user(name: str, stages: dict[str, Stage]) -> str:
    """Return the user that a stage runs as: its own last USER, or that of its base."""
    users = stages[name].list_arguments("USER")
    if users:
        return users[-1].split(":")[0]
    return _find_user(stages[name].base, stages) if stages[name].base in stages else ""

"""The command `recserve`: checks that its rooms are its own, then runs the command line.

The top-level names are generic because the service owns its environment. Where another package of one of these
names comes first on the path, the failure would be baffling; so it is named here.
"""

import importlib.util
import sys
from pathlib import Path

ROOMS = ("app", "bootstrap", "stages", "features", "abtest", "expression")


def shadowed(home: Path) -> list[str]:
    """Rooms that are imported from elsewhere than beside this package, each with the file that shadows it."""
    found = []
    for room in ROOMS:
        spec = importlib.util.find_spec(room)
        origin = None if spec is None else spec.origin
        if origin is None or Path(origin).resolve().parent.parent != home:
            found.append(f"{room!r} is {origin or 'nowhere to be found'}")
    return found


def main() -> int:
    """Run the command line; the exit status."""
    home = Path(__file__).resolve().parent.parent
    wrong = shadowed(home)
    if wrong:
        sys.stderr.write(
            f"recserve: {'; '.join(wrong)}. Expected the packages in {home}: "
            "run recserve in an environment of its own, from another folder, or without PYTHONPATH.\n"
        )
        return 1
    from app.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())

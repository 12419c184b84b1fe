"""`python -m workers.reference [DOCS]`: writes the reference pages again."""

from __future__ import annotations

import sys
from pathlib import Path

from workers.reference import write

for path in write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")):
    print(path)

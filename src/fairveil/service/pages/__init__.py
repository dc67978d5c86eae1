"""Pages for people: the same routes as everybody's, read with eyes.

A page asks the JSON routes of its channel and nothing else (`visit.Asking`), so it cannot show more than they give.
Every form works without script and posts to its page's own path.
"""

from __future__ import annotations

from fairveil.service.pages import entry, loops, making, operation, published
from fairveil.service.routes import declared

PAGES = declared(entry, published, loops, making, operation)

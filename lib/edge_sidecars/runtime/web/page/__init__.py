"""The page for people, at `/` of a component's own endpoints.

asked   which requests are for it, and loads the rest when the first of them comes
served  its files, and the component's status document as server-sent events

`files` has HTML, style and scripts as they are. Of the scripts, page.js starts each page, shell.js
has what all of them use, and one more draws each component; top.js draws several.
"""

-- Changes of files by the tools of a session.

CREATE TABLE file_changes (
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    number INTEGER NOT NULL,
    entry INTEGER NOT NULL,
    round INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    root TEXT NOT NULL,
    path TEXT NOT NULL,
    body TEXT NOT NULL,
    content BYTEA,
    undone BOOLEAN NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (owner, session, number),
    FOREIGN KEY (owner, session) REFERENCES sessions (owner, id) ON DELETE CASCADE
);

CREATE INDEX file_changes_by_root ON file_changes (owner, root, created);

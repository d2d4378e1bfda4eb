-- Sessions and their contents, leases, key-value state, recordings.

CREATE TABLE sessions (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    title TEXT NOT NULL,
    about TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    updated DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (owner, id)
);

CREATE INDEX sessions_by_age ON sessions (owner, updated);

CREATE TABLE leases (
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    token TEXT NOT NULL,
    holder TEXT NOT NULL,
    expires DOUBLE PRECISION NOT NULL,
    written BIGINT NOT NULL,
    PRIMARY KEY (owner, session),
    FOREIGN KEY (owner, session) REFERENCES sessions (owner, id) ON DELETE CASCADE
);

CREATE TABLE entries (
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    body TEXT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (owner, session, number),
    FOREIGN KEY (owner, session) REFERENCES sessions (owner, id) ON DELETE CASCADE
);

CREATE TABLE pieces (
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    entry INTEGER NOT NULL,
    number INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (owner, session, entry, number),
    FOREIGN KEY (owner, session, entry) REFERENCES entries (owner, session, number) ON DELETE CASCADE
);

CREATE TABLE rounds (
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    entry INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (owner, session, entry, number),
    FOREIGN KEY (owner, session, entry) REFERENCES entries (owner, session, number) ON DELETE CASCADE
);

CREATE TABLE calls (
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    entry INTEGER NOT NULL,
    round INTEGER NOT NULL,
    number INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    state TEXT NOT NULL,
    side_effects BOOLEAN NOT NULL,
    call TEXT NOT NULL,
    result TEXT,
    seconds DOUBLE PRECISION NOT NULL,
    started DOUBLE PRECISION,
    finished DOUBLE PRECISION,
    PRIMARY KEY (owner, session, entry, round, number),
    FOREIGN KEY (owner, session, entry, round) REFERENCES rounds (owner, session, entry, number) ON DELETE CASCADE
);

CREATE TABLE state (
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    ends DOUBLE PRECISION,
    PRIMARY KEY (key)
);

CREATE INDEX state_by_end ON state (ends);

CREATE TABLE recordings (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    model TEXT NOT NULL,
    body TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    ends DOUBLE PRECISION,
    PRIMARY KEY (owner, id)
);

CREATE INDEX recordings_by_age ON recordings (owner, created);

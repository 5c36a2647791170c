"""A real PostgreSQL cluster for the store's tests, optionally behind pgbouncer."""
import glob
import os
import pwd
import shutil
import subprocess

from store_lib import TIMEOUT_S, Server, free_ports, program
from run_lib import wait_for

PLACES = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)


def server_user():
    """PostgreSQL refuses to run as root: use its own user, or nobody."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def as_user(words, user, **more):
    return subprocess.run(words, user=user, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


class Postgres:
    """One cluster: a directory, a port and a socket. User `boss` owns everything; its password is in a file."""

    PASSWORD = "correct horse battery"

    def __init__(self, place, name="pg", port=None, **settings):
        self.place, self.name = place, name
        self.user = server_user()
        self.postgres = program("postgres", "postgresql", *PLACES)
        self.psql_program = program("psql", "postgresql-client", *PLACES)
        self.data = os.path.join(place.dir, name)
        self.port = port or free_ports()[0]
        self.socket = place.folder(name + ".sock")
        self.own(self.socket)
        self.password_file = place.file(name + ".secret", self.PASSWORD + "\n", 0o644)
        self.settings = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": self.socket,
                         "max_connections": 300, "shared_buffers": "16MB", **settings}
        self.server = None

    def own(self, path):
        if self.user:
            shutil.chown(path, self.user)

    def create(self):
        os.makedirs(self.data, mode=0o700)
        self.own(self.data)
        as_user([program("initdb", "postgresql", *PLACES), "-D", self.data, "-U", "boss", "--pwfile", self.password_file,
                 "-A", "scram-sha-256", "-E", "UTF8", "--no-locale", "-N"], self.user, cwd=self.place.dir)
        return self

    def words(self):
        """The command that starts the server."""
        return [self.postgres, "-D", self.data, *(word for item in self.settings.items() for word in ("-c", "=".join(map(str, item))))]

    def start(self):
        self.server = Server(self.place, self.name, self.words(), port=self.port, user=self.user, ready=self.answers).start()
        return self

    def answers(self):
        return self.sql("SELECT 1", check=False) == "1"

    def url(self, port=None, database="postgres", user="boss", more=""):
        return f"postgres://{user}@127.0.0.1:{port or self.port}/{database}?password-file={self.password_file}{more}"

    def sql(self, text, database="postgres", user="boss", check=True, port=None):
        """What psql prints, without decoration; None if it fails and may fail."""
        env = dict(os.environ, PGPASSWORD=self.PASSWORD, PGCONNECT_TIMEOUT="10")
        done = subprocess.run([self.psql_program, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p",
                               str(port or self.port), "-U", user, "-d", database], input=text, env=env, timeout=TIMEOUT_S,
                              capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
        assert not check, done.stderr
        return None

    def error(self, text, **more):
        """Returns the error of a statement that must fail."""
        env = dict(os.environ, PGPASSWORD=self.PASSWORD)
        done = subprocess.run([self.psql_program, "-X", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-h", "127.0.0.1",
                               "-p", str(self.port), "-U", "boss", "-d", more.get("database", "postgres")], input=text,
                              env=env, timeout=TIMEOUT_S, capture_output=True, text=True, check=False)
        assert done.returncode != 0, f"{text} was accepted"
        return done.stderr

    def stop(self):
        """Shuts the cluster down cleanly, for a copy of the data."""
        as_user([program("pg_ctl", "postgresql", *PLACES), "-D", self.data, "-m", "fast", "-w", "stop"], self.user,
                cwd=self.place.dir)
        self.server.process.wait()

    def copy(self, name):
        """Copies the data of a stopped cluster."""
        target = os.path.join(self.place.dir, name)
        as_user(["cp", "-a", self.data, target], None if not self.user else "root")
        return target

    def restore(self, copy):
        shutil.rmtree(self.data)
        os.rename(copy, self.data)

    def standby(self, name):
        """Creates a standby that follows this cluster."""
        other = Postgres(self.place, name)
        env = dict(os.environ, PGPASSWORD=self.PASSWORD)
        os.makedirs(other.data, mode=0o700)
        self.own(other.data)
        as_user([program("pg_basebackup", "postgresql", *PLACES), "-h", "127.0.0.1", "-p", str(self.port), "-U", "boss",
                 "-D", other.data, "-R", "-X", "stream"], self.user, env=env, cwd=other.socket)
        return other

    def promote(self):
        as_user([program("pg_ctl", "postgresql", *PLACES), "-D", self.data, "-w", "promote"], self.user, cwd=self.place.dir)


class Pgbouncer:
    """A pooler in transaction mode in front of a cluster, with this many server sessions."""

    def __init__(self, place, cluster, pool=2, mode="transaction", name="pgbouncer"):
        self.port = free_ports()[0]
        users = place.file(name + ".users", f'"boss" "{cluster.PASSWORD}"\n')
        config = place.file(name + ".ini", f"""[databases]
* = host=127.0.0.1 port={cluster.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = {mode}
default_pool_size = {pool}
max_client_conn = 200
""")
        self.server = Server(place, name, [program("pgbouncer", "pgbouncer"), config], port=self.port,
                             user=server_user()).start()


def wait_until(what, why, seconds=TIMEOUT_S):
    what.__doc__ = why
    return wait_for(what, seconds, 0.01)

"""A JupyterHub on one machine, to try the course with: no system users, no passwords, reachable from this machine only.

try_hub.py starts it. It is not for a class: every server runs as whoever starts the hub, and anybody may log in under
any name. values.yaml has what a class needs.
"""

import os
import shutil
from pathlib import Path

FOLDER, NOTEBOOKS = Path(os.environ["HUB_FOLDER"]), Path(os.environ["HUB_NOTEBOOKS"])
COURSE = os.environ["HUB_COURSE"]
EXCHANGE = FOLDER / "exchange"
CLASS_ACCOUNT = "grading"  # its home has the folder of the class; nobody logs in as it

NBGRADER = """
c = get_config()
c.CourseDirectory.course_id = {course!r}
c.Exchange.root = {exchange!r}
c.ExchangeCollect.check_owner = False  # here all files belong to one system user
"""


def furnish(spawner) -> None:
    """Give a new home the notebooks of the course and the exchange; assignments come through the exchange."""
    home = Path(spawner.home_dir)
    if not (home / "course").exists():
        shutil.copytree(NOTEBOOKS, home / "course", ignore=shutil.ignore_patterns("assignments", "conftest.py", ".*"))
    config = NBGRADER.format(course=COURSE, exchange=str(EXCHANGE))
    if spawner.user.name != CLASS_ACCOUNT:  # nbgrader asks for the system user otherwise
        config += f"c.CourseDirectory.student_id = {spawner.user.name!r}\n"
    (home / ".jupyter").mkdir(exist_ok=True)
    (home / ".jupyter" / "nbgrader_config.py").write_text(config)


c = get_config()  # noqa: F821
c.JupyterHub.hub_ip = "127.0.0.1"
c.JupyterHub.db_url = f"sqlite:///{FOLDER / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(FOLDER / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(FOLDER / "proxy.pid")
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.concurrent_spawn_limit = 0  # all at once

c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(FOLDER / "homes" / "{username}")
c.Spawner.args = ["--allow-root"] if os.geteuid() == 0 else []
c.Spawner.environment = {"OMP_NUM_THREADS": "1"}  # many kernels share the cores
c.Spawner.start_timeout = c.Spawner.http_timeout = 600
c.Spawner.pre_spawn_hook = furnish

# Teachers start and open the server of the account that has the class; its Formgrader is theirs together.
c.JupyterHub.load_groups = {"teachers": {"users": ["teacher"]}, "classes": {"users": [CLASS_ACCOUNT]}}
c.JupyterHub.load_roles = [
    {
        "name": "teachers",
        "groups": ["teachers"],
        "scopes": [f"{scope}!user={CLASS_ACCOUNT}" for scope in ("access:servers", "servers", "read:users")],
    }
]

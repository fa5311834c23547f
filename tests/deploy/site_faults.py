"""Power cuts in a deployment on this machine: of a client or an edge, for a while or for good."""

import os
import signal

from stagewise.deploy.layout import PROGRAMS
from stagewise.deploy.processes import SUPERVISOR
from stagewise.deploy.programs import save_programs


def kill(site, name):
    """Kill the process of a client or an edge, which is then started again; its old process id."""
    pid = site.pids()[process_of(site, name)]
    os.kill(pid, signal.SIGKILL)
    return pid


def kill_for_good(site, name):
    """Kill the process of a client or an edge, which is not started again."""
    process = process_of(site, name)
    pid = site.pids()[process]
    del site.programs[process]
    save_programs(site.programs.values(), site.host_folder / PROGRAMS)
    os.kill(site.pids()[SUPERVISOR], signal.SIGHUP)
    os.kill(pid, signal.SIGKILL)


def process_of(site, name):
    """What the process of a client or an edge is called."""
    (role,) = [each.role for each in (*site.site.edges, *site.site.clients) if each.id == name]
    return role

"""The programs of clients and edges: `python -m stagewise.deploy.apps.client_app`, `.edge_app`."""

"""A real Prometheus that scrapes the programs under test every 0.2 s."""
import json
import urllib.parse
import urllib.request

from store_lib import Server, free_ports, program


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.read().decode()


class Prometheus:
    """Scrapes these ports of 127.0.0.1 as one job, and evaluates the rules of one file. Ends with the place."""

    def __init__(self, place, job, ports, rules):
        self.port = free_ports(1)[0]
        targets = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
        config = place.file("prometheus.yml", f'global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}\nrule_files: ["{rules}"]\n'
                            f"scrape_configs: [{{job_name: {job}, static_configs: [{{targets: [{targets}]}}]}}]\n")
        self.server = Server(place, "prometheus", [
            program("prometheus", "prometheus"), f"--config.file={config}", f"--web.listen-address=127.0.0.1:{self.port}",
            "--storage.tsdb.path=" + place.folder("prometheus")], port=self.port).start()

    def query(self, text):
        """The series that an expression returns now."""
        try:
            return json.loads(get(self.port, "/api/v1/query?" + urllib.parse.urlencode({"query": text})))["data"]["result"]
        except OSError:
            return []

    def shows(self, text):
        """True if an expression returns a number: a panel with it shows data."""
        return any(series["value"][1] not in ("NaN", "+Inf", "-Inf") for series in self.query(text))

    def rules(self):
        groups = json.loads(get(self.port, "/api/v1/rules"))["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def firing(self):
        """The names of the alerts that fire."""
        alerts = json.loads(get(self.port, "/api/v1/alerts"))["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

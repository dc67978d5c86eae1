"""One self-contained offline HTML report: figures, tables, claims with traffic lights, guarantees, environment."""

from fairveil.lab.report.page import write_report as write_report

// Draws one panel as Grafana does: its transformations, field options and display processor, then its
// table, stat or bar gauge. What Grafana keeps outside its packages is made up for here: the lists of
// transformations and field options, and the layout of several values.

import { createRoot } from 'react-dom/client';
import { lastValueFrom } from 'rxjs';
import {
  FieldConfigOptionsRegistry,
  ThemeContext,
  applyFieldOverrides,
  createDataFrame,
  createTheme,
  dataLinksOverrideProcessor,
  displayNameOverrideProcessor,
  getFieldDisplayName,
  getFieldDisplayValues,
  identityOverrideProcessor,
  numberOverrideProcessor,
  standardFieldConfigEditorRegistry,
  standardTransformers,
  standardTransformersRegistry,
  thresholdsOverrideProcessor,
  transformDataFrame,
  unitOverrideProcessor,
  valueMappingsOverrideProcessor,
} from '@grafana/data';
import { BarGauge, BigValue } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';

const WIDTH = 1400;
const HEIGHT = 600;
const MOST_VALUES = 24;
const theme = createTheme({ colors: { mode: 'light' } });
const asIs = (text) => text;

const transformations = new Map(Object.values(standardTransformers).map((one) => [one.id, one]));
standardTransformersRegistry.setInit(() =>
  [...transformations.values()].map((one) => ({
    id: one.id,
    name: one.name,
    description: '',
    transformation: async () => one,
  }))
);

const option = (id, process) => ({ id, path: id, name: id, process, shouldApply: () => true, settings: {} });
const OPTIONS = [
  option('unit', unitOverrideProcessor),
  option('decimals', numberOverrideProcessor),
  option('min', numberOverrideProcessor),
  option('max', numberOverrideProcessor),
  option('displayName', displayNameOverrideProcessor),
  option('thresholds', thresholdsOverrideProcessor),
  option('mappings', valueMappingsOverrideProcessor),
  option('links', dataLinksOverrideProcessor),
  option('color', identityOverrideProcessor),
  option('noValue', identityOverrideProcessor),
];
const TABLE_OPTIONS = ['cellOptions', 'align', 'filterable', 'width', 'minWidth', 'hidden', 'inspect'];
standardFieldConfigEditorRegistry.setInit(() => OPTIONS);
const tableRegistry = new FieldConfigOptionsRegistry(() => [
  ...OPTIONS,
  ...TABLE_OPTIONS.map((name) => ({
    ...option(`custom.${name}`, identityOverrideProcessor),
    path: name,
    isCustom: true,
  })),
]);

function shown(value) {
  return `${value.prefix ?? ''}${value.text}${value.suffix ?? ''}`;
}

function table(panel, data) {
  const [frame] = data;
  const columns = frame.fields.map((field) => ({
    name: getFieldDisplayName(field, frame, data),
    type: field.type,
    cells: field.values.map((value) => {
      const display = field.display(value);
      return { value, text: shown(display), color: display.color ?? null };
    }),
  }));
  const element = (
    <TableNG data={frame} width={WIDTH} height={HEIGHT} cellHeight="sm" initialSortBy={[]} structureRev={1}
      fieldConfig={panel.fieldConfig} getActions={() => []} />
  );
  return [element, { columns }];
}

function values(panel, data) {
  const found = getFieldDisplayValues({
    data,
    fieldConfig: panel.fieldConfig,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables: asIs,
    theme,
    timeZone: 'utc',
  });
  const one = (value, index) =>
    panel.type === 'stat' ? (
      <BigValue key={index} value={value.display} theme={theme} width={340} height={90}
        colorMode={panel.options.colorMode} graphMode="none" textMode={panel.options.textMode}
        justifyMode="auto" />
    ) : (
      <BarGauge key={index} value={value.display} field={value.field} theme={theme} width={WIDTH / 2}
        height={40} orientation="horizontal" displayMode={panel.options.displayMode}
        display={value.view?.getFieldDisplayProcessor(value.colIndex)} />
    );
  const element = <div>{found.slice(0, MOST_VALUES).map(one)}</div>;
  const told = found.map((value) => ({
    title: value.display.title ?? '',
    text: shown(value.display),
    color: value.display.color ?? null,
  }));
  return [element, { values: told }];
}

let root;

// Draws a panel, and returns what Grafana's display processor makes of its values.
window.drawPanel = async (panel, frames) => {
  const made = await lastValueFrom(
    transformDataFrame(panel.transformations ?? [], frames.map(createDataFrame), { interpolate: asIs })
  );
  const data = applyFieldOverrides({
    data: made,
    fieldConfig: panel.fieldConfig,
    fieldConfigRegistry: panel.type === 'table' ? tableRegistry : undefined,
    replaceVariables: asIs,
    theme,
    timeZone: 'utc',
  });
  root?.unmount();
  const node = document.createElement('div');
  node.style.cssText = `width:${WIDTH}px;height:${HEIGHT}px`;
  document.body.replaceChildren(node);
  root = createRoot(node);
  const [element, told] = panel.type === 'table' ? table(panel, data) : values(panel, data);
  root.render(<ThemeContext.Provider value={theme}>{element}</ThemeContext.Provider>);
  return told;
};

// Returns the cells of the table that is on the page, and which of them have no colour of their own.
window.drawnCells = () => {
  const background = (element) => getComputedStyle(element).backgroundColor;
  const plain = ['rgba(0, 0, 0, 0)', 'rgba(255, 255, 255, 0)', background(document.querySelector('[role=grid]'))];
  return [...document.querySelectorAll('[role=gridcell]')].map((cell) => ({
    column: Number(cell.getAttribute('aria-colindex')) - 1,
    text: cell.textContent,
    plain: plain.includes(background(cell)),
  }));
};
